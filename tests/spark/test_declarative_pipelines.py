"""`spark-pipelines` runs the project of the guide, which reads a topic and writes one."""

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


def project_of_the_guide(folder: Path, *, bootstrap: str, orders: str, invoices: str) -> Path:
    """Writes its two files; the path of its spec."""
    _, section = GUIDE.read_text("utf-8").split("\n## Declarative pipelines\n")
    section, *_ = section.split("\n## ")
    [spec] = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    [shop] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    shop = shop.replace("127.0.0.1:9092", bootstrap)
    shop = shop.replace('subscribe="orders"', f'subscribe="{orders}"')
    shop = shop.replace('"topic": "invoices"', f'"topic": "{invoices}"')
    (folder / "transformations").mkdir(parents=True)
    (folder / "transformations" / "shop.py").write_text(shop, "utf-8")
    path = folder / "spark-pipeline.yml"
    path.write_text(spec.replace("file:///var/lib/shop", folder.as_uri()), "utf-8")
    return path


@pytest.mark.timeout(600)
def test_flow_from_topic_to_topic_is_run_to_its_end(
    connect_server: ConnectServer,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    orders, invoices = topic(partitions=2), topic(partitions=2)
    spec = project_of_the_guide(
        folder / "shop", bootstrap=node.bootstrap, orders=orders, invoices=invoices
    )
    confluent.produce(orders, [Message(key=b"ann", value=b"3"), Message(key=b"bob", value=b"5")])
    command = [str(SPARK_PIPELINES), "--remote", connect_server.remote, "run"]
    ended = run_program(command, folder=spec.parent)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    written = committed_records(node.bootstrap, invoices)
    assert sorted((one.key, one.value) for one in written) == [
        (b"ann", b"pay 3"),
        (b"bob", b"pay 5"),
    ]
