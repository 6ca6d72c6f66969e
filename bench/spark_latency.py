"""From trigger to visible: how long a micro-batch of Spark takes, and what it asks of a node.

    python bench/spark_latency.py                     1, 12 and 200 tasks, 100 batches of each way
    python bench/spark_latency.py --before SRC        also the checkout of this src folder
    python bench/spark_latency.py --tasks 12 --batches 20 --output runs.jsonl

A query carries rows from topic to topic, one row a task and batch. Rows are written when those of
the batch before can be read. *Visible* is when another client, which reads what is committed, has
the last row of a batch; the trigger is the one that Spark names in the progress of the batch. Ours
is measured with both deliveries: the difference is what exactly once costs. The floor has our
source and a sink that discards. Requests are those of the node's metrics, for each batch, without
those of the bench's own clients; between two batches a source asks for new offsets.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from compare import machine
from request_counts import Requests
from rich.console import Console
from rich.table import Table
from spark_carrying import (
    AT_LEAST_ONCE,
    BEFORE_THIS,
    EXACTLY_ONCE,
    WAYS,
    Carrying,
    Place,
    Result,
)
from spark_run import NODE_SETTINGS
from spark_sides import spark_with_sides

from rig.held_port import HeldPort
from rig.serve import ServedNode

WITH_PROTOCOL = (EXACTLY_ONCE, BEFORE_THIS)


def main() -> None:
    chosen = parsed()
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as name:
        folder = Path(name)
        metrics = HeldPort()
        settings = {**NODE_SETTINGS, "penstock.metrics.address": metrics.address}
        node = ServedNode(data=folder / "node", settings=settings)
        node.start()
        place = Place(
            bootstrap=node.bootstrap, metrics=f"http://{metrics.address}/metrics", folder=folder
        )
        try:
            results = measured(chosen, place)
        finally:
            node.stop()
    title = f"batches: {chosen.batches}, {chosen.master}; {machine()}"
    console = Console(width=190, highlight=False)
    console.print(times(results, title))
    for tasks in chosen.tasks:
        console.print(asked([one for one in results if one.tasks == tasks]))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=numbers, default=[1, 12, 200], help="1,12,200")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=5, help="batches before those")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", default="", help="ways with this in their names")
    parser.add_argument("--before", type=Path, help="the src folder of another, built checkout")
    parser.add_argument("--output", type=Path, help="every result is added here as a line of JSON")
    parser.add_argument(
        "--quick", action="store_true", help="one batch of two tasks, to see that it works"
    )
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.tasks, chosen.batches, chosen.warm_up = [2], 1, 1
    return chosen


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def measured(chosen: argparse.Namespace, place: Place) -> list[Result]:
    results = []
    with spark_with_sides(
        master=chosen.master, before=chosen.before, folder=place.folder, quick=chosen.quick
    ) as (spark, formats):
        for tasks in chosen.tasks:
            for way, (source, sink, _) in WAYS.items():
                if {source, sink} <= formats and chosen.only in way:
                    carrying = Carrying(spark, place, tasks=tasks, way=way)
                    try:
                        results.append(carrying.measured(chosen.batches, chosen.warm_up))
                        keep(results[-1], chosen.output)
                    finally:
                        carrying.close()
    return results


def keep(result: Result, output: Path | None) -> None:
    if output is not None:
        with output.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def times(results: Sequence[Result], title: str) -> Table:
    table = Table(title=title)
    headings = ("trigger to visible", "acked to visible", "whole batch", "tasks and commit")
    for heading in ("tasks", "way", *(f"{one}, p50 / p99 ms" for one in headings)):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    table.add_column("above at least once, p50 ms", justify="right")
    for result in results:
        columns = (
            quantiles([getattr(batch, name) for batch in result.batches])
            for name in ("visible", "felt", "whole", "adding")
        )
        table.add_row(str(result.tasks), result.way, *columns, protocol_share(result, results))
    return table


def protocol_share(result: Result, results: Sequence[Result]) -> str:
    """How much longer a batch takes exactly once than at least once."""
    others = [one for one in results if one.tasks == result.tasks and one.way == AT_LEAST_ONCE]
    if result.way not in WITH_PROTOCOL or not others:
        return ""
    ours, other = ([batch.whole for batch in one.batches] for one in (result, others[0]))
    return f"{quantile(ours, 0.5) - quantile(other, 0.5):,.0f}"


def quantiles(values: Sequence[float | None]) -> str:
    found = [one for one in values if one is not None]
    if not found:
        return ""
    return f"{quantile(found, 0.5):,.0f} / {quantile(found, 0.99):,.0f}"


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[math.ceil(len(values) * share) - 1]


def asked(results: Sequence[Result]) -> Table:
    """Requests for each batch, and how long the node took for those that it always measures."""
    tasks = results[0].tasks if results else 0
    table = Table(title=f"requests a batch (ms of them at the node), tasks: {tasks}")
    table.add_column("request")
    for result in results:
        table.add_column(result.way, justify="right")
    apis = sorted({api for one in results for api, count in one.requests.counts.items() if count})
    for api in apis:
        table.add_row(api, *(cell(one.requests, api) for one in results))
    totals = (sum(one.requests.counts.values()) for one in results)
    table.add_row("all", *(f"{total:,.1f}" for total in totals))
    return table


def cell(found: Requests, api: str) -> str:
    count, spent = found.counts.get(api, 0), found.milliseconds.get(api, 0)
    if not count:
        return ""
    return f"{count:,.1f}" + (f" ({spent:,.1f})" if spent else "")


if __name__ == "__main__":
    main()
