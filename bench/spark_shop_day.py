"""A day of the shop on Spark, 350,000 events, while the node and the driver are killed in turn.

    python bench/spark_shop_day.py                          in 12 minutes, a kill every minute
    python bench/spark_shop_day.py --hot 2 --add-partitions half of the events are of two articles;
                                                            the input topics grow in the middle
    python bench/spark_shop_day.py --nodes 3                on a cluster: leaders are killed
    python bench/spark_shop_day.py --backlog 10             ten days are in the topics before Spark
                                                            starts: events/s, memory, state
    python bench/spark_shop_day.py --events 3000 --minutes 3 --kill-every 30

At the end every output is compared with what follows from the events: duplicates, missing, wrong.
"Wrong" has payments that are out of order, too. Status 1 unless all are 0.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg
from shop_day import Outcome, Plan, ShopDay

# Topics and database are made as for the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from penstock.cli.demo_processes import DemoCluster, DemoDriver
from penstock.cli.pipeline_load import DAY_MS, story_days
from penstock.spark.pipelines.catalogue import PIPELINES
from penstock.spark.pipelines.commerce.generate import events
from penstock.spark.pipelines.commerce.names import LEDGER, STOCK_TABLE
from rig.broker import NO_RETENTION_ROUND
from rig.pipeline_input import make_topics
from rig.postgres import Databases

SHOP = PIPELINES["commerce"]
EVENTS_PER_DAY = 350_000
MASTER = "local[2,4]"  # a task may be tried again: it meets a node that is being killed
MIB = 1 << 20
SLACK_SECONDS = 600  # to start and to stop what the day runs on
# Events of ten days are older than what the topics keep.
SETTINGS = {**NO_RETENTION_ROUND, "transaction.two.phase.commit.enable": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, help=f"default: {EVENTS_PER_DAY:,} a day")
    parser.add_argument("--minutes", type=float, default=12.0, help="so long they are sent")
    parser.add_argument("--backlog", type=float, metavar="DAYS",
                        help="so many days are in the topics before Spark starts")  # fmt: skip
    parser.add_argument("--kill-every", type=float, metavar="SECONDS",
                        help="default: 60, and with --backlog never")  # fmt: skip
    parser.add_argument("--hot", type=int, default=0, metavar="SKUS",
                        help="half of all events are of so many articles")  # fmt: skip
    parser.add_argument("--add-partitions", action="store_true",
                        help="twice the partitions from the middle of the day on")  # fmt: skip
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the events and of the kills")
    parser.add_argument("--silent", type=float, default=300.0, metavar="SECONDS",
                        help="nothing came out for so long: the rest is missing")  # fmt: skip
    parser.add_argument("--within", type=float, default=120.0, metavar="MINUTES",
                        help="the end of everything")  # fmt: skip
    parser.add_argument("--folder", type=Path, help="a new one, which is kept")
    chosen = parser.parse_args()
    if chosen.backlog is not None and chosen.add_partitions:
        parser.error("--add-partitions is for a day that is sent while Spark runs")
    plan = plan_of(chosen)
    # Nodes, driver and database are processes that end with this one, whichever way it ends.
    for ending in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    signal.alarm(round(plan.seconds_max) + SLACK_SECONDS)  # if a process hangs that is waited for
    with ExitStack() as opened:
        folder = chosen.folder or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="penstock-shop-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        outcome, figures = run_day(plan, folder, hot=chosen.hot, nodes=chosen.nodes)
        show(plan, outcome, figures, state_bytes(folder / "spark" / "checkpoints"))
    sys.exit(0 if outcome.proven else 1)


def plan_of(chosen: argparse.Namespace) -> Plan:
    days = 1.0 if chosen.backlog is None else chosen.backlog
    count = chosen.events or round(EVENTS_PER_DAY * days)
    kill_every = chosen.kill_every
    if kill_every is None and chosen.backlog is None:
        kill_every = 60.0
    return Plan(
        count=count,
        rate=count / (60 * chosen.minutes) if chosen.backlog is None else None,
        kill_every_seconds=kill_every,
        adds_partitions=chosen.add_partitions,
        silent_seconds_max=chosen.silent,
        seconds_max=60 * chosen.within,
        seed=chosen.seed,
    )


def run_day(
    plan: Plan, folder: Path, *, hot: int, nodes: int
) -> tuple[Outcome, list[dict[str, object]]]:
    """What came of it, and what the last driver tells of its queries."""
    with ExitStack() as opened:
        databases = Databases()
        opened.callback(databases.close)
        dsn = databases.fresh()
        data = folder / "nodes"
        data.mkdir()
        acks = {"min.insync.replicas": "2"} if nodes > 1 else {}
        cluster = DemoCluster(nodes, data, settings={**SETTINGS, **acks})
        opened.callback(cluster.stop)
        cluster.start()
        make_topics(cluster.bootstrap, SHOP.name)
        arguments = [SHOP.name, "--bootstrap", cluster.bootstrap, "--master", MASTER, "--json"]
        arguments += ["--folder", str(folder / "spark"), "--postgres", dsn]
        log = folder / "driver.log"
        driver = DemoDriver(arguments, log=log)
        opened.callback(driver.stop)
        start_ms = time.time_ns() // 1_000_000 - story_days(SHOP, plan.count) * DAY_MS
        day = ShopDay(
            plan,
            events(plan.seed, start_ms=start_ms, hot_skus=hot),
            cluster=cluster,
            driver=driver,
            table=lambda: levels(dsn),
            say=say,
        )
        outcome = asyncio.run(day.run())
        driver.stop()
        return outcome, last_figures(log)


def say(line: str) -> None:
    print(line, flush=True)


def levels(dsn: str) -> Mapping[str, int]:
    """The stock by article, as the table has it."""
    with psycopg.connect(dsn) as connection:
        if connection.execute(f"SELECT to_regclass('{STOCK_TABLE}')").fetchone() == (None,):
            return {}
        return dict(connection.execute(f"SELECT sku, level FROM {STOCK_TABLE}").fetchall())


def last_figures(log: Path) -> list[dict[str, object]]:
    """The JSON that a driver prints when it is asked to end; nothing if the last one did not."""
    _, opening, rest = log.read_text("utf-8", "replace").rpartition("\n[\n")
    try:
        found, _ = json.JSONDecoder().raw_decode("[" + rest) if opening else ([], 0)
    except ValueError:
        return []
    return list(found)


def state_bytes(checkpoints: Path) -> dict[str, int]:
    """What the state of each query takes in its checkpoint, with the versions that are kept."""
    if not checkpoints.is_dir():
        return {}
    return {
        query.name: sum(one.stat().st_size for one in state.rglob("*") if one.is_file())
        for query in sorted(checkpoints.iterdir())
        if (state := query / "state").is_dir()
    }


def show(
    plan: Plan, outcome: Outcome, figures: list[dict[str, object]], stored: Mapping[str, int]
) -> None:
    course = outcome.course
    columns = ("events in", "rows out", "duplicates", "missing", "wrong")
    print(f"\n{'output':26}" + "".join(f"{name:>12}" for name in columns))
    for one in outcome.findings:
        numbers = (one.events, one.rows, one.duplicates, one.missing, one.wrong)
        print(f"{one.what:26}" + "".join(f"{number:>12,}" for number in numbers))
    ordered = all(one.wrong == 0 for one in outcome.findings if one.what == LEDGER)
    print(f"\npayments in order            {'yes' if ordered else 'NO'}")
    print(f"nodes killed                 {course.node_kills}")
    print(f"drivers killed               {course.driver_kills}")
    print(f"drivers ended by themselves  {len(course.ended_by_itself)}")
    for line in course.ended_by_itself:
        print(f"  {line}")
    if course.partitions:
        print(f"partitions added             {course.partitions}")
    seconds = course.came_s - course.began_s
    print(f"from the start of Spark until the last row {seconds:.0f} s")
    if plan.rate is None and seconds > 0:
        print(f"events a second              {plan.count / seconds:,.0f}")
    print(f"peak memory of driver, Java and workers (PSS) {course.peak_bytes / MIB:,.0f} MiB")
    for query in figures:
        rows, used = query.get("state_rows"), query.get("state_bytes")
        if isinstance(rows, int) and isinstance(used, int) and rows:
            on_disk = stored.get(str(query["query"]), 0)
            print(
                f"state of {query['query']}: {rows:,} rows, {used / MIB:,.1f} MiB in memory,"
                f" {on_disk / MIB:,.2f} MiB in the checkpoint"
            )
    print(
        f"verdict: {'' if outcome.proven else 'NOT '}exactly once and in order (seed {plan.seed})"
    )


if __name__ == "__main__":
    main()
