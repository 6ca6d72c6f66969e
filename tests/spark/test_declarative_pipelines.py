"""`spark-pipelines` runs the project of the guide: a topic into a topic and tables, run by run."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.connect_server import ConnectServer
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.source_tree import ROOT
from rig.spark_program import run_program

pytestmark = pytest.mark.slow

GUIDE = ROOT / "docs" / "spark-deployment.md"
SPARK_PIPELINES = Path(sys.executable).with_name("spark-pipelines")


# What both tables hold, as JSON; its argument is the address of the server.
SHOW_TABLES = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
names = ("amounts", "totals")
print(json.dumps([sorted(map(list, spark.read.table(name).collect())) for name in names]))
"""


@pytest.mark.timeout(600)
def test_next_run_goes_on_where_the_one_before_ended(
    connect_server: ConnectServer,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    orders, invoices = topic(partitions=2), topic(partitions=2)
    spec = project_of_the_guide(
        folder / "shop", bootstrap=node.bootstrap, orders=orders, invoices=invoices, tables=True
    )
    order(confluent, orders, ann=3, bob=5)
    run_to_its_end(spec, "--remote", connect_server.remote)
    assert invoiced(node, invoices) == [(b"ann", b"pay 3"), (b"bob", b"pay 5")]
    order(confluent, orders, ann=4)
    run_to_its_end(spec, "--remote", connect_server.remote)
    assert invoiced(node, invoices) == [(b"ann", b"pay 3"), (b"ann", b"pay 4"), (b"bob", b"pay 5")]
    command = [sys.executable, "-c", SHOW_TABLES, connect_server.remote]
    shown = run_program(command, folder=folder)
    amounts, totals = json.loads(shown.stdout)
    assert amounts == [["ann", 3], ["ann", 4], ["bob", 5]]
    assert totals == [["ann", 7], ["bob", 5]]


@pytest.mark.timeout(600)
def test_runs_without_a_server_write_each_record_once(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str], folder: Path
) -> None:
    orders, invoices = topic(partitions=2), topic(partitions=2)
    spec = project_of_the_guide(
        folder / "shop", bootstrap=node.bootstrap, orders=orders, invoices=invoices, tables=False
    )
    order(confluent, orders, ann=3, bob=5)
    run_to_its_end(spec)
    order(confluent, orders, ann=4)
    run_to_its_end(spec)
    assert invoiced(node, invoices) == [(b"ann", b"pay 3"), (b"ann", b"pay 4"), (b"bob", b"pay 5")]


def project_of_the_guide(
    folder: Path, *, bootstrap: str, orders: str, invoices: str, tables: bool
) -> Path:
    """Writes its two files; the path of its spec."""
    _, section = GUIDE.read_text("utf-8").split("\n## Declarative pipelines\n")
    section, *_ = section.split("\n## ")
    [spec] = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    flow, of_tables = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    shop = f"{flow}\n\n{of_tables}" if tables else flow
    shop = shop.replace("127.0.0.1:9092", bootstrap)
    shop = shop.replace('subscribe="orders"', f'subscribe="{orders}"')
    shop = shop.replace('"topic": "invoices"', f'"topic": "{invoices}"')
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "shop.py").write_text(shop, "utf-8")
    path = folder / "spark-pipeline.yml"
    path.write_text(spec.replace("file:///var/lib/shop", folder.as_uri()), "utf-8")
    return path


def order(confluent: ConfluentClient, topic: str, **amounts: int) -> None:
    confluent.produce(
        topic,
        [Message(key=buyer.encode(), value=b"%d" % amount) for buyer, amount in amounts.items()],
    )


def run_to_its_end(spec: Path, *arguments: str) -> None:
    ended = run_program([str(SPARK_PIPELINES), *arguments, "run"], folder=spec.parent)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def invoiced(node: ServedNode, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted((one.key, one.value) for one in committed_records(node.bootstrap, topic))
