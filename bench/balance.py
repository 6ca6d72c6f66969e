"""Sixty partitions, those of one node ten times as busy: what `penstock partitions balance` makes.

    python bench/balance.py [--partitions 60] [--for 10] [--json]

Three nodes as processes, one replica of each partition, so that only copies help. Each record has a
request of its own, so that requests have the same skew as bytes. Shown are the bytes that the logs
of each node grow by in the same rounds of records before and after, the bytes that the plan copied,
and what no plan can do without: the load above 1.3 times the mean, at the best load for a byte. A
partition is copied whole, so that a greedy plan copies up to one more.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from brokers import TESTS
from rich.console import Console
from rich.table import Table

sys.path.append(str(TESTS))

from rig.operating.balancing import BalanceReport, balance_skewed, of_mean
from rig.operating.cluster import OperatedCluster

LIMIT = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=50, help="of records, before and after")
    parser.add_argument("--for", dest="seconds", type=int, default=10, help="measured by balance")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console(highlight=False, stderr=options.json)
    with (
        console.status("three nodes, a skew of 10 to 1, and a balance"),
        tempfile.TemporaryDirectory(prefix="penstock-balance-") as folder,
        OperatedCluster(Path(folder)) as cluster,
    ):
        cluster.start()
        report = balance_skewed(
            cluster,
            partitions=options.partitions,
            rounds=options.rounds,
            seconds=options.seconds,
        )
    if options.json:
        print(json.dumps({**asdict(report), "least_bytes": round(report.least_bytes)}, indent=2))
    else:
        show(report, console)
    sys.exit(of_mean(report.grown_after) > LIMIT or report.spare_changes > 0)


def show(report: BalanceReport, console: Console) -> None:
    table = Table("node", "MB before", "of mean", "MB after", "of mean ")
    for column in table.columns[1:]:
        column.justify = "right"
    for node in report.grown_before:
        cells = []
        for grown in (report.grown_before, report.grown_after):
            mean = sum(grown.values()) / len(grown)
            cells += [f"{grown[node] / 1e6:.2f}", f"{grown[node] / mean:.2f}"]
        table.add_row(str(node), *cells)
    console.print(table)
    copies = sum(change["bytes"] > 0 for change in report.plan["changes"])
    console.print(
        f"{len(report.plan['changes'])} changes, {copies} with copies of"
        f" {report.copied_bytes / 1e6:.2f} MB; no plan can do with less than"
        f" {report.least_bytes / 1e6:.2f} MB; {report.spare_changes} copies more than needed"
    )


if __name__ == "__main__":
    main()
