"""A million orders, one in a hundred malformed: `python bench/spark_dead_letters.py --help`.

A pipeline on Spark shares out orders. What it can't read or work on goes to a dead-letter topic, in
the transaction of the rest. Then the pipeline is repaired, `penstock dlq replay` writes the letters
back, and it runs on; a quarter of the malformed orders can't be read by anyone, and come back as
letters of attempt 2. What comes out is read by confluent-kafka, committed records only: every
order once, every letter once and as it was.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The pipeline and its judge are the tests' own.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import penstock.spark
from rig.broker import NO_RETENTION_ROUND
from rig.clients.confluent import ConfluentClient
from rig.malformed_orders import (
    Told,
    Topics,
    Verdict,
    first_version,
    judge,
    repaired_version,
    replay,
    run_pipeline,
    write_orders,
)
from rig.serve import ServedNode

LINE_EVERY_SECONDS = 10
TOPICS = Topics(orders="orders", shares="orders.shares", dead="orders.dead")
NODE_SETTINGS = {
    **NO_RETENTION_ROUND,
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rows-at-once", type=int, default=250_000, help="of a batch of Spark")
    parser.add_argument("--master", default="local[2]")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-letters-") as folder:
        node = ServedNode(data=Path(folder) / "node", settings=NODE_SETTINGS)
        node.start()
        try:
            faults = prove(chosen, node, Path(folder))
        finally:
            node.stop()
    print(f"verdict: {'NOT ' if faults else ''}exactly once")
    sys.exit(1 if faults else 0)


def prove(chosen: argparse.Namespace, node: ServedNode, folder: Path) -> int:
    client = ConfluentClient(node.bootstrap)
    for name in (TOPICS.orders, TOPICS.shares, TOPICS.dead):
        client.create_topic(name, partitions=chosen.partitions)
    client.close()
    seconds: dict[str, float] = {}
    with step("orders written", seconds) as told:
        write_orders(node.bootstrap, TOPICS.orders, chosen.orders, told=told)
    spark = penstock.spark.session(
        "dead letters",
        master=chosen.master,
        **{"spark.driver.memory": "1g", "spark.log.level": "ERROR"},
    )
    place = {"folder": folder / "checkpoint", "rows_at_once": chosen.rows_at_once}
    try:
        with step("pipeline", seconds) as told:
            first = first_version(TOPICS)
            run_pipeline(spark, node.bootstrap, TOPICS, first, told=told, **place)
        before = judge(node.bootstrap, TOPICS, chosen.orders, repaired=False)
        with step("letters replayed", seconds) as told:
            told(replay(node.bootstrap, TOPICS.dead))
        with step("pipeline, repaired", seconds) as told:
            repaired = repaired_version(TOPICS)
            run_pipeline(spark, node.bootstrap, TOPICS, repaired, told=told, **place)
    finally:
        spark.stop()
    after = judge(node.bootstrap, TOPICS, chosen.orders, repaired=True)
    show(chosen.orders, before, after, seconds)
    return before.faults + after.faults


@contextmanager
def step(name: str, seconds: dict[str, float]) -> Iterator[Told]:
    """A line that changes on a terminal, and now and then one elsewhere."""
    live, started, last = sys.stdout.isatty(), time.monotonic(), [0.0]

    def tell(count: int) -> None:
        now = time.monotonic()
        line = f"{name}: {count:,} after {now - started:.0f} s"
        if live:
            print(f"\r{line}", end="", flush=True)
        elif now >= last[0] + LINE_EVERY_SECONDS:
            last[0] = now
            print(line, flush=True)

    yield tell
    seconds[name] = time.monotonic() - started
    print(f"{chr(13) if live else ''}{name}: done in {seconds[name]:.1f} s", flush=True)


def show(orders: int, before: Verdict, after: Verdict, seconds: dict[str, float]) -> None:
    print(f"\n{orders:,} orders{'':<18} {'at first':>10} {'repaired':>10}")
    for name in ("shares", "letters", "duplicates", "missing", "foreign", "altered"):
        print(f"{name:28} {getattr(before, name):>10,} {getattr(after, name):>10,}")
    for attempt in sorted(after.attempts):
        print(
            f"letters of attempt {attempt:<9} {before.attempts[attempt]:>10,}"
            f" {after.attempts[attempt]:>10,}"
        )
    for reason, count in sorted(before.reasons.items()):
        print(f"  {count:>7,}  {reason}")
    print(f"pipeline: {orders / seconds['pipeline']:,.0f} orders a second")


if __name__ == "__main__":
    main()
