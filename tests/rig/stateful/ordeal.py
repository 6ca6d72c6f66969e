"""Queries are killed at points of their sink, again and again, and come to their end all the same.

One program has all the queries. Each comes to its point and is held there; when all are held, the
program, its JVM and its workers are killed. The next one repeats what was under way, goes on with a
batch that came meanwhile, and is held in that. So a start of Spark serves as many kills as there
are queries. Start at `Ordeal.kill_once`.
"""

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.streams import CAME_LATE
from rig.planned_strikes import Plant, Strikes
from rig.spark_driving import DriverError, SparkDriver
from rig.spark_strikes import Where

POINTS = (
    Where.BEFORE_DECISION,
    Where.AFTER_DECISION,
    Where.BETWEEN_COMMITS,
    Where.AFTER_ALL,
)
LOOK_SECONDS = 0.1
STARTS_MAX = 10
HOLD_SECONDS_MAX = 900
PROGRAM = "rig.stateful.driver"
# A query that is held keeps what it has; a program that is killed so often leaves old state behind.
SETTINGS = {"spark.sql.streaming.minBatchesToRetain": "2"}


@dataclass(slots=True, kw_only=True)
class Victim:
    """A query, or a pipeline, that is killed at one point."""

    what: str
    where: Where
    place: Place
    name: str  # of a single query, and of its output
    sinks: tuple[str, ...]  # all of them are held before the kill
    kills: int = 0
    task_bytes_min: int | None = None  # that a task of a killed batch had to write


class Ordeal:
    def __init__(
        self,
        victims: Sequence[Victim],
        *,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        plant: Plant | None = None,
        told: Callable[[str], None],
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._victims = victims
        self._folder = folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._plant = plant
        self._told = told
        self._lives = 0

    def kill_once(self) -> None:
        """Every victim, in a batch that it has not been killed in yet: one must be there."""
        driver = self._driver()
        try:
            for victim in self._victims:
                self._hold(driver, victim)
        finally:
            driver.kill()
            shutil.rmtree(self._folder / "spark", ignore_errors=True)
        for victim in self._victims:
            victim.kills += 1

    def finish(self) -> None:
        """Every victim comes to the end of what is there."""
        driver = self._driver()
        try:
            for victim in self._victims:
                starts = 0
                while self._comes_late(driver, victim):
                    starts += 1
                    assert starts < STARTS_MAX, f"{victim.name}: Spark waits for no Python process"
                self._told(f"{victim.name}: came to its end")
        except BaseException:
            driver.kill()
            raise
        driver.stop()

    def strikes(self, sink: str) -> Strikes:
        return Strikes(folder=self._folder / "strikes", sink=sink)

    def _hold(self, driver: SparkDriver, victim: Victim) -> None:
        began = time.monotonic()
        before = {sink: self.strikes(sink).struck_batch for sink in victim.sinks}
        queries = self._start(driver, victim, victim.where)
        starts = 1
        while self._waited_for(before):
            live = [query for query in queries if driver.ask("look", query=query)]
            if not live and len(queries) == 1 and is_late(driver, queries[0]):
                assert starts < STARTS_MAX, f"{victim.name}: Spark waits for no Python process"
                queries = self._start(driver, victim, victim.where)
                starts += 1
                continue
            for query in queries:
                if query not in live:
                    driver.ended(query)  # raises what it ended with
            if not live and self._waited_for(before):
                raise DriverError(f"{victim.name} ended, and was not held in all of {before}")
            left = self._waited_for(before)
            assert time.monotonic() - began < HOLD_SECONDS_MAX, f"{left} was not held"
            time.sleep(LOOK_SECONDS)
        self._note_bytes(victim)
        self._told(
            f"{victim.name}: held, kill {victim.kills + 1}, after {time.monotonic() - began:.1f} s"
        )

    def _comes_late(self, driver: SparkDriver, victim: Victim) -> bool:
        """A run to the end, unless Spark was impatient with a query."""
        late = [is_late(driver, query) for query in self._start(driver, victim, None)]
        return any(late)

    def _waited_for(self, before: Mapping[str, int | None]) -> list[str]:
        return [sink for sink in before if self.strikes(sink).struck_batch == before[sink]]

    def _start(self, driver: SparkDriver, victim: Victim, where: Where | None) -> list[str]:
        for sink in victim.sinks:
            self.strikes(sink).order(where, plant=self._plant)
        started = driver.ask(
            "start_struck",
            what=victim.what,
            place=_as_json(victim.place),
            sink=victim.name,
            strikes=str(self._folder / "strikes"),
        )
        return [str(query) for query in started]

    def _note_bytes(self, victim: Victim) -> None:
        for sink in victim.sinks:
            strikes = self.strikes(sink)
            batch = strikes.struck_batch
            assert batch is not None
            known = [] if victim.task_bytes_min is None else [victim.task_bytes_min]
            victim.task_bytes_min = min([*known, *strikes.task_bytes(batch)])

    def _driver(self) -> SparkDriver:
        self._lives += 1
        log = self._folder / f"driver{self._lives}.log"
        return SparkDriver(log=log, settings=self._settings, program=PROGRAM)


def is_late(driver: SparkDriver, query: str) -> bool:
    """Whether it ended since Spark did not wait for a Python process, as on a busy machine."""
    try:
        driver.ended(query)
    except DriverError as error:
        if CAME_LATE not in str(error):
            raise
        return True
    return False


def _as_json(place: Place) -> dict[str, object]:
    told = asdict(place)
    del told["event_time"]  # is as it is by default
    return told
