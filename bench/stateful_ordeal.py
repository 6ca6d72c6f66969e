"""Stateful queries, killed at each point of the exactly-once sink, and what they count in the end.

    python bench/stateful_ordeal.py                          20 kills of each query at each point
    python bench/stateful_ordeal.py --query profiles --point after-decision --kills 5
    python bench/stateful_ordeal.py --query cdc              a pipeline whole, once at each point
    python bench/stateful_ordeal.py --small --kills 1        little data: does it run at all?
    python bench/stateful_ordeal.py --plant repeats          a sink with a fault: it must be found

The points are before the decision about a batch, after it, between the commits of its transactions,
and after all of that, when Spark has not noted the batch yet. A query comes to its point and is
held there; when all are held, the driver program, its JVM and its workers are killed. The next one
repeats the batch, and is held in another one: so one start of Spark serves as many kills as there
are queries and points. Every task of a killed batch has at least 5 MB to read, and of the word
count, the order view and the profiles 5 MB to write.

What comes out is read by confluent-kafka, committed records only, and compared record by record
with what plain loops make of the same events.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokers import TESTS
from rich.console import Console
from rich.table import Table

# The node, the driver program, the stories and what is done to them are the tests' own.
sys.path.append(str(TESTS))

from penstock.spark.pipelines.place import Place
from rig.numbered_rows import open_transactions
from rig.planned_strikes import Plant
from rig.postgres import Databases
from rig.serve import ServedNode
from rig.spark_strikes import Where
from rig.stateful.feeding import feed, prepare, states
from rig.stateful.ordeal import POINTS, Ordeal, Victim
from rig.stateful.order_view import OrderViewStory
from rig.stateful.pipelines import Cdc, Clickstream, WholePipeline
from rig.stateful.profiles import ProfilesStory
from rig.stateful.queries import CDC, CLICKSTREAM, ORDER_VIEW, PROFILES, WORD_COUNT
from rig.stateful.story import Story
from rig.stateful.truth import Verdict
from rig.stateful.word_count import WordCountStory

ALL = "all"
SINGLE, WHOLE = (WORD_COUNT, ORDER_VIEW, PROFILES), (CLICKSTREAM, CDC)
TASK_BYTES_MIN = 5_000_000
NODE_SETTINGS = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}
# Unlike the tests', these programs live for minutes and have something to compute.
SPARK_SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    victim: Victim
    verdict: Verdict
    wants_bytes: bool  # a task has to write TASK_BYTES_MIN

    @property
    def is_large_enough(self) -> bool:
        written = self.victim.task_bytes_min
        return not self.wants_bytes or (written is not None and written >= TASK_BYTES_MIN)


def main() -> None:
    options = parsed()
    console = Console(width=140, highlight=False)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="penstock-stateful-"))
    console.print(f"seed {options.seed}, data and logs in {folder}")
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:7.1f} s  {line}", markup=False)

    chosen = (*SINGLE, *WHOLE) if options.query == ALL else (options.query,)
    points = POINTS if options.point == ALL else (Where(options.point),)
    outcomes = []
    if single := [what for what in chosen if what in SINGLE]:
        outcomes += kill_queries(single, points, options, folder / "queries", say)
    for what in chosen:
        if what in WHOLE:
            for where in points:
                place = folder / f"{what}.{where}"
                outcomes.append(kill_pipeline(what, where, options, place, say))
    show(outcomes, console)
    is_good = all(one.verdict.is_good and one.is_large_enough for one in outcomes)
    if options.folder is None and is_good:
        shutil.rmtree(folder)
    sys.exit(0 if is_good else 1)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--query", choices=(*SINGLE, *WHOLE, ALL), default=ALL)
    parser.add_argument("--point", choices=(*(str(point) for point in POINTS), ALL), default=ALL)
    parser.add_argument("--kills", type=int, default=20, help="of a query at a point")
    parser.add_argument("--small", action="store_true", help="with little data")
    parser.add_argument("--plant", type=Plant, choices=list(Plant), help="a fault of the sink")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="a new one, which is kept")
    return parser.parse_args()


def story_of(what: str, *, seed: int, small: bool) -> Story:
    """As many events in a batch as it takes for tasks of 5 MB."""
    share = 0.01 if small else 1.0
    match what:
        case "word-count":
            return WordCountStory(seed=seed, words=round(290_000 * share))
        case "order-view":
            return OrderViewStory(seed=seed, events_per_batch=round(68_000 * share))
        case _:
            users, events = round(85_000 * share), round(102_000 * share)
            return ProfilesStory(seed=seed, users=users, events_per_batch=events)


def kill_queries(
    queries: list[str],
    points: tuple[Where, ...],
    options: argparse.Namespace,
    folder: Path,
    say: Callable[[str], None],
) -> list[Outcome]:
    """All of them in one program, on one node; those of one kind read the same topics."""
    folder.mkdir(parents=True)
    node = ServedNode(data=folder / "node", settings=NODE_SETTINGS)
    node.start()
    try:
        place = place_in(folder, node.bootstrap)
        stories = {what: story_of(what, seed=options.seed, small=options.small) for what in queries}
        victims = [
            Victim(what=what, where=where, place=place, name=name, sinks=(name,))
            for what in queries
            for where in points
            for name in [f"{what}.{where}"]
        ]
        for what, story in stories.items():
            names = [victim.name for victim in victims if victim.what == what]
            prepare(node.bootstrap, story, *names)
        ordeal = Ordeal(
            victims, folder=folder, settings=SPARK_SETTINGS, plant=options.plant, told=say
        )
        for number in range(options.kills):
            feed_all(node.bootstrap, stories, say)
            ordeal.kill_once()
            say(f"kill {number + 1} of {options.kills} of {len(victims)} queries")
        feed_all(node.bootstrap, stories, say)
        ordeal.finish()
        outcomes = []
        for victim in victims:
            story = stories[victim.what]
            verdict = story.truth.judge(
                states(node.bootstrap, victim.name, story),
                left_open=left_open(node.bootstrap, victim),
            )
            say(f"{victim.name}: {verdict}")
            wants = not options.small
            outcomes.append(Outcome(victim=victim, verdict=verdict, wants_bytes=wants))
        return outcomes
    finally:
        node.stop()


def feed_all(bootstrap: str, stories: dict[str, Story], say: Callable[[str], None]) -> None:
    for what, story in stories.items():
        fed = feed(bootstrap, story.batch())
        say(f"{what}: a batch of {fed / 1e6:.1f} MB, in {sum(story.topics.values())} partitions")


def kill_pipeline(
    what: str,
    where: Where,
    options: argparse.Namespace,
    folder: Path,
    say: Callable[[str], None],
) -> Outcome:
    """Once, on a node of its own; afterwards it gets as much again."""
    folder.mkdir(parents=True)
    node = ServedNode(data=folder / "node", settings=NODE_SETTINGS)
    node.start()
    databases = Databases()
    try:
        dsn = databases.fresh() if what == CDC else None
        place = place_in(folder, node.bootstrap, postgres=dsn)
        share = 0.05 if options.small else 1.0  # enough for visits that are over
        pipeline: WholePipeline
        if what == CDC:
            size = round(6_000 * share)
            pipeline = Cdc(place, seed=options.seed, transactions_per_batch=size)
        else:
            size = round(150_000 * share)
            pipeline = Clickstream(place, seed=options.seed, events_per_batch=size)
        name = f"{what}.{where}"
        victim = Victim(what=what, where=where, place=place, name=name, sinks=pipeline.sinks)
        pipeline.prepare()
        pipeline.feed()
        ordeal = Ordeal(
            [victim], folder=folder, settings=SPARK_SETTINGS, plant=options.plant, told=say
        )
        ordeal.kill_once()
        pipeline.feed()
        ordeal.finish()
        left = Verdict(
            expected=0,
            found=0,
            missing=0,
            doubled=0,
            wrong=0,
            left_open=left_open(node.bootstrap, victim),
        )
        verdict = pipeline.judge() + left
        say(f"{name}: {verdict}")
        return Outcome(victim=victim, verdict=verdict, wants_bytes=False)
    finally:
        databases.close()
        node.stop()


def place_in(folder: Path, bootstrap: str, *, postgres: str | None = None) -> Place:
    """A run takes all that is there in one batch, and ends."""
    return Place(
        bootstrap=bootstrap,
        folder=str(folder / "pipelines"),
        postgres=postgres,
        once=True,
        batch_records_max=None,
    )


def left_open(bootstrap: str, victim: Victim) -> int:
    return sum(one.startswith(victim.sinks) for one in open_transactions(bootstrap))


def show(outcomes: list[Outcome], console: Console) -> None:
    table = Table(title="stateful queries, killed at the points of the sink")
    for column in ("query", "killed"):
        table.add_column(column)
    for column in ("times", "least MB a task", "expected", "found", "missing", "doubled", "wrong"):
        table.add_column(column, justify="right")
    table.add_column("left open", justify="right")
    table.add_column("")
    for one in outcomes:
        victim, verdict = one.victim, one.verdict
        counts = (verdict.expected, verdict.found, verdict.missing, verdict.doubled, verdict.wrong)
        said = "good" if verdict.is_good else "[red]NOT exactly once"
        if not one.is_large_enough:
            said += " [red]too little data"
        table.add_row(
            victim.what,
            str(victim.where),
            f"{victim.kills}",
            f"{(victim.task_bytes_min or 0) / 1e6:.1f}",
            *(f"{count:,}" for count in counts),
            f"{verdict.left_open}",
            said,
        )
    console.print(table)


if __name__ == "__main__":
    main()
