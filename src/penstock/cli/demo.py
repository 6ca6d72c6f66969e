"""`penstock demo`: a shop on three nodes and on Spark, SIGKILLs to both, and a table of proof.

`--plain` needs no Spark: a million keyed records in, and all of them out again in order.
"""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.connect import with_cluster
from penstock.cli.demo_plain import plain_demo
from penstock.cli.demo_processes import DemoCluster, DemoDriver, DemoFailed
from penstock.cli.demo_shop import Shop, Show, run_shop
from penstock.cli.options import json_option
from penstock.cli.pipeline_load import events_of, load
from penstock.cli.show import OutputConsole, print_json, print_table
from penstock.client.admin.topology import read_topology
from penstock.client.admin.topology_apply import apply_topology
from penstock.client.network.cluster import Cluster
from penstock.model.error import PenstockError
from penstock.spark.pipelines.catalogue import PIPELINES
from penstock.spark.pipelines.commerce.names import STOCK_TABLE
from penstock.spark.pipelines.commerce.proof import Finding

SHOP = PIPELINES["commerce"]
SEED = 1
# A task may be tried again: it meets a node that is being killed.
MASTER = "local[2,4]"
# Two of Spark's starts fit into it on a machine that others keep busy.
SILENT_SECONDS_MAX = 300.0
NEXT = """
what to look at next:
  penstock serve &                       a node of your own (--nodes 3)
  penstock pipeline list                 five pipelines that are ready to run
  penstock pipeline generate commerce --count 10000
  penstock pipeline run commerce         the same shop, until Ctrl-C; also --once, --for SECONDS
  docs/pipelines.md, docs/spark.md       what they do, and how to write your own
"""


@click.command()
@click.option("--events", default=10_000, show_default=True, type=click.IntRange(min=300),
              help="How many events the shop has.")  # fmt: skip
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(min=1, max=9),
              help="How many nodes the cluster has.")  # fmt: skip
@click.option("--plain", is_flag=True, help="Without Spark: a million records in and out again.")
@click.option("--records", default=1_000_000, show_default=True, type=click.IntRange(min=1),
              help="How many, with --plain.")  # fmt: skip
@json_option
def demo(events: int, nodes: int, plain: bool, records: int, as_json: bool) -> None:
    """Run a shop on a cluster and Spark, kill a node and Spark, and prove that nothing is lost."""
    if plain:
        plain_demo(records, as_json)
        return
    load("penstock.spark.start", for_what="the demo")
    # Its children are processes of their own, which end with it whichever way it is asked to.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    console = OutputConsole(stderr=as_json)
    started_s = time.monotonic()
    findings = _shop(console, events, nodes)
    seconds = time.monotonic() - started_s
    proven = all(finding.proven for finding in findings)
    if as_json:
        told = [asdict(finding) for finding in findings]
        print_json({"events": events, "nodes": nodes, "seconds": round(seconds, 1),
                    "proven": proven, "outputs": told})  # fmt: skip
    else:
        _show_findings(findings)
    if not proven:
        raise DemoFailed(
            f"what has come out is not what went in, and for {SILENT_SECONDS_MAX:.0f} s nothing"
            " more has come: see the table"
        )
    console.print(
        f"[green]{events:,} events in; a leader and the Spark driver were killed; every output is"
        f" complete: duplicates 0, missing 0[/green]  ({seconds:.0f} s)"
    )
    if not as_json:
        console.print(NEXT, highlight=False)


def _shop(console: Console, events: int, nodes: int) -> list[Finding]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
        database = stack.enter_context(_database(console))
        data = folder / "nodes"
        data.mkdir()
        cluster = DemoCluster(nodes, data, settings=_settings(nodes))
        stack.callback(cluster.stop)
        cluster.start()
        console.print(f"{_count(nodes)} up at [bold]{cluster.bootstrap}[/bold]")
        _make_topics(cluster.bootstrap)
        arguments = [SHOP.name, "--bootstrap", cluster.bootstrap, "--master", MASTER]
        arguments += ["--folder", str(folder / "spark")]
        if database is not None:
            arguments += ["--postgres", database]
        driver = DemoDriver(arguments, log=folder / "driver.log")
        stack.callback(driver.stop)
        driver.start()
        console.print("the commerce pipeline starts on Spark, in a process of its own")
        shop = Shop(
            cluster=cluster,
            driver=driver,
            events=events_of(SHOP, SEED, count=events),
            count=events,
            silent_seconds_max=SILENT_SECONDS_MAX,
            table=lambda: _table(database),
        )
        with _progress(console, events) as show:
            return asyncio.run(run_shop(shop, show))


def _settings(nodes: int) -> dict[str, str]:
    """Prepared transactions have no time-out (two-phase commit), and where there are three nodes
    what is acked is on two of them.
    """
    acks = {"min.insync.replicas": "2"} if nodes > 2 else {}
    return {"transaction.two.phase.commit.enable": "true", **acks}


def _count(nodes: int) -> str:
    return "a node is" if nodes == 1 else f"{nodes} nodes are"


@contextmanager
def _progress(console: Console, events: int) -> Iterator[Show]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        sent = progress.add_task("events in", total=events)
        came = progress.add_task("rows out", total=None)
        yield Show(
            say=progress.console.print,
            sent=lambda count: progress.advance(sent, count),
            came=lambda count: progress.advance(came, count),
        )


def _show_findings(findings: list[Finding]) -> None:
    print_table(
        ("output", "events in", "rows out", "duplicates", "missing", "wrong"),
        ((f.what, f.events, f.rows, f.duplicates, f.missing, f.wrong) for f in findings),
    )


def _make_topics(bootstrap: str) -> None:
    wanted = read_topology(SHOP.topology)

    async def work(cluster: Cluster) -> None:
        await apply_topology(cluster, wanted)

    with_cluster(bootstrap, work)


@contextmanager
def _database(console: Console) -> Iterator[str | None]:
    """A PostgreSQL of the demo's own where the extra is installed; else None, and that is said."""
    try:
        packaged: Any = load("penstock.spark.tables.packaged_postgres", for_what="the table")
        server = packaged.PackagedPostgres()
    except PenstockError as error:  # MissingExtra, or the server of the wheel is not there
        console.print(f"without PostgreSQL: {error}")
        yield None
        return
    with server:
        console.print("a PostgreSQL is up for the stock levels")
        yield server.new_database("shop")


def _table(database: str | None) -> Mapping[str, int] | None:
    if database is None:
        return None
    psycopg: Any = load("psycopg", for_what="the table")
    with psycopg.connect(database) as connection:
        if connection.execute(f"SELECT to_regclass('{STOCK_TABLE}')").fetchone() == (None,):
            return {}
        return dict(connection.execute(f"SELECT sku, level FROM {STOCK_TABLE}").fetchall())
