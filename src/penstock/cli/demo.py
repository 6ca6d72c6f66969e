"""`penstock demo`: a node, a million keyed records in, and all of them out again in order.

The node is a child process, started as anybody would start it. Records are written and read with
confluent-kafka where it is installed, and else with Penstock's own client.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
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
from penstock.cli.options import json_option
from penstock.cli.show import print_json
from penstock.client.admin import Admin, NewTopic, first_refusal
from penstock.client.cluster import Cluster
from penstock.model.error import PenstockError

TOPIC = "demo"
PARTITIONS = 6
READY = "penstock ready: "
STOP_SECONDS_MAX = 30


class DemoFailed(PenstockError):
    """The node did not start, or what came out is not what went in."""


@click.command()
@click.option("--records", default=1_000_000, show_default=True, type=click.IntRange(min=1))
@json_option
def demo(records: int, as_json: bool) -> None:
    """Start a node, write keyed records into 6 partitions, read them back, check them all."""
    console = Console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as data, _node(data) as bootstrap:
        console.print(f"a node is up at [bold]{bootstrap}[/bold]")
        with_cluster(bootstrap, _create_topic)
        console.print(f"topic [bold]{TOPIC}[/bold] has {PARTITIONS} partitions")
        job = confluent_job(bootstrap, TOPIC) or penstock_job(bootstrap, TOPIC)
        console.print(f"client: {job.client}")
        check = OrderCheck()
        produced_s, consumed_s = _run(console, job, records, check)
    trouble = check.trouble(records)
    if trouble is not None:
        raise DemoFailed(trouble)
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
def _node(data: str) -> Iterator[str]:
    """A node as a child process; the value is its address."""
    command = [sys.executable, "-m", "penstock.cli.main", "serve"]
    command += ["--data", data, "--listen", "127.0.0.1:0"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as node,
    ):
        assert node.stdout is not None
        try:
            line = node.stdout.readline()
            if not line.startswith(READY):
                errors.seek(0)
                told = errors.read().decode(errors="replace")
                raise DemoFailed(f"the node did not start: {told}")
            yield line.removeprefix(READY).strip()
        finally:
            node.terminate()
            with suppress(subprocess.TimeoutExpired):
                node.wait(STOP_SECONDS_MAX)
            node.kill()
