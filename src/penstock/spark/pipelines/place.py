"""Where a pipeline runs: its cluster, its folder, its database, and for how long. Pure.

A job gets nothing else from outside, so the same job runs in a test, on a laptop and by
spark-submit. Everything that must survive a restart lies in `folder`: give the same folder again,
and every query goes on where it was.
"""

from dataclasses import dataclass

from penstock.model.error import PenstockError
from penstock.spark.options import BOOTSTRAP, CONFIG_FILE
from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS, EventTimeBounds

TRIGGER_SECONDS = 1.0
BATCH_RECORDS_MAX = 100_000  # a batch fits into a small machine


class NoDatabase(PenstockError):
    """The pipeline writes into PostgreSQL, and was told of none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    bootstrap: str
    folder: str  # a path, or the URL of a file system that all of Spark's workers reach
    config_file: str | None = None  # settings of the client, for brokers that ask for a log-in
    postgres: str | None = None  # a DSN; None: there is no database
    once: bool = False  # what is there now, and then the end
    trigger_seconds: float = TRIGGER_SECONDS  # a new batch begins so often, where not `once`
    batch_records_max: int | None = BATCH_RECORDS_MAX  # of each source; None: all there is
    event_time: EventTimeBounds = DEFAULT_BOUNDS  # events beyond them become dead letters
    forget_after_ms: int | None = None  # keys without an event for so long; None: none is

    def __post_init__(self) -> None:
        assert self.bootstrap
        assert self.folder
        assert self.trigger_seconds >= 0
        assert self.forget_after_ms is None or self.forget_after_ms > 0

    @property
    def brokers(self) -> dict[str, str]:
        """Options of a source or a sink. They only name the file: Spark shows options."""
        options = {BOOTSTRAP: self.bootstrap}
        return options if self.config_file is None else {**options, CONFIG_FILE: self.config_file}

    def checkpoint(self, query: str) -> str:
        """The checkpoint folder of a query of this pipeline."""
        return self._inside("checkpoints", query)

    def table(self, name: str) -> str:
        """The folder of a Delta table of this pipeline."""
        return self._inside("tables", name)

    def database(self) -> str:
        """The DSN, for a pipeline that can't do without."""
        if self.postgres is None:
            raise NoDatabase(
                "this pipeline writes to PostgreSQL: give its address with --postgres DSN"
            )
        return self.postgres

    def _inside(self, *names: str) -> str:
        assert all(names), names
        return "/".join((self.folder.rstrip("/"), *names))
