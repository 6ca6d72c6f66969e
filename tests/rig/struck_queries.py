"""Queries of a driver program, each of which comes to a point where it is struck."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rig.numbered_rows import judge_topic, make_topics, write_numbers
from rig.spark_query import PENSTOCK, Carrying
from rig.spark_strikes import NAME, Strike, Where

ROWS = 48
BATCH = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A query with a sink of this name, and where it is struck."""

    name: str
    carrying: Carrying
    strike: Strike

    @property
    def unharmed(self) -> Carrying:
        """The same query, as a driver starts it that comes afterwards."""
        return replace(self.carrying, writer=PENSTOCK, writer_options={"sinkId": self.name})

    @property
    def faults(self) -> dict[str, object]:
        """Of the query alone: others of the program may not have been taken up yet."""
        carrying = self.carrying
        return judge_topic(carrying.bootstrap, carrying.sink, count=ROWS, ids=self.name).faults


def struck(
    bootstrap: str,
    folder: Path,
    name: str,
    where: Where,
    *,
    by_batches: bool = False,
    options: Mapping[str, str],
) -> Struck:
    """Two batches, of two tasks each that write to two partitions each."""
    source, sink = f"{name}-in", f"{name}-out"
    make_topics(bootstrap, source, sink, partitions=2)
    write_numbers(bootstrap, source, range(ROWS))
    own = folder / name
    own.mkdir()
    strike = Strike(where=where, batch=BATCH, folder=own)
    carrying = Carrying(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        checkpoint=str(own / "checkpoint"),
        rows_per_batch=ROWS // 2,
        writer=NAME,
        by_batches=by_batches,
        writer_options={**strike.options, "sinkId": name, **options},
    )
    return Struck(name=name, carrying=carrying, strike=strike)
