"""`penstock demo --plain`: a node, a million keyed records in, and all out again in order.

The node is a child process, started as anybody would start it. Records are written and read with
confluent-kafka where it is installed, and else with Penstock's own client.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from penstock.cli.connect import with_cluster
from penstock.cli.demo_check import OrderCheck, expected_records
from penstock.cli.demo_clients import Found, Job, confluent_job, penstock_job
from penstock.cli.demo_processes import DemoFailed, DemoNode
from penstock.cli.show import OutputConsole, print_json
from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.cluster import Cluster

TOPIC = "demo"
PARTITIONS = 6


def plain_demo(records: int, as_json: bool) -> None:
    """Start a node, write keyed records into 6 partitions, read them back, check them all."""
    console = OutputConsole(stderr=as_json)
    with _node() as bootstrap:
        console.print(f"a node is up at [bold]{bootstrap}[/bold]")
        with_cluster(bootstrap, _create_topic)
        console.print(f"topic [bold]{TOPIC}[/bold] has {PARTITIONS} partitions")
        job = confluent_job(bootstrap, TOPIC) or penstock_job(bootstrap, TOPIC)
        console.print(f"client: {job.client}")
        check = OrderCheck()
        produced_s, consumed_s = _run(console, job, records, check)
    error = check.error(records)
    if error is not None:
        raise DemoFailed(error)
    if as_json:
        print_json(
            {
                "records": records,
                "keys": check.keys,
                "client": job.client,
                "produced_per_second": round(records / produced_s),
                "consumed_per_second": round(records / consumed_s),
            }
        )
        return
    console.print(
        f"produced {records / produced_s:,.0f} records/s, {check.bytes / produced_s / 1e6:.1f} MB/s"
        f"  |  consumed {records / consumed_s:,.0f} records/s,"
        f" {check.bytes / consumed_s / 1e6:.1f} MB/s"
    )
    console.print(
        f"[green]all {records:,} records are there once, each of {check.keys:,} keys in one"
        f" partition and in order[/green]"
    )


def _run(console: Console, job: Job, records: int, check: OrderCheck) -> tuple[float, float]:
    """How long writing took, and how long reading."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        producing = progress.add_task("produce", total=records)
        started = time.monotonic()
        job.produce(expected_records(records), lambda count: progress.advance(producing, count))
        produced = time.monotonic()
        consuming = progress.add_task("consume", total=records)

        def take(found: Found) -> None:
            for partition, key, value in found:
                check.take(partition, key, value)
            progress.advance(consuming, len(found))

        job.consume(records, take)
        return produced - started, time.monotonic() - produced


async def _create_topic(cluster: Cluster) -> None:
    new = NewTopic(name=TOPIC, partitions=PARTITIONS)
    first_refusal((await Admin(cluster).create_topics([new])).values())


@contextmanager
def _node() -> Iterator[str]:
    """A node as a child process; the value is its address."""
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        arguments = ["serve", "--data", f"{folder}/node", "--listen", "127.0.0.1:0"]
        node = DemoNode(arguments, log=Path(folder, "node.log"))
        try:
            node.start()
            assert node.address is not None
            yield node.address
        finally:
            node.stop()
