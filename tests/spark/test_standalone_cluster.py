"""A program on a standalone cluster brings Penstock along, in an environment that it sends."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.small_spark import SHORT_LIVED_JAVA
from rig.source_tree import ROOT
from rig.spark_cluster import SPARK_HOME, SparkCluster
from rig.spark_program import first_steps, run_program

pytestmark = pytest.mark.slow

# What a packed environment need not hold in a test: it is there for every Python of this machine.
DEPENDENCIES = Path(pyarrow.__file__).parents[1]
PYTHON = "environment/bin/python"
WHERE = """
import importlib

numbers = spark.sparkContext.parallelize([0], 1)
print("FOUND", numbers.map(lambda _: importlib.import_module("penstock.spark").__file__).first())
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """Its executors know nothing of Penstock."""
    one = SparkCluster(folder=tmp_path / "cluster", workers=1, path="")
    one.start()
    yield one
    one.stop()


def pack_environment(folder: Path) -> Path:
    """As `pip install penstock` and `venv-pack` would have it, without what is everywhere."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", packages, dirs_exist_ok=True, ignore=ignored)
    # A line of code, because venv-pack refuses a path outside the environment.
    (packages / "dependencies.pth").write_text(
        f"import sys; sys.path.append({str(DEPENDENCIES)!r})\n", "utf-8"
    )
    archive = folder / "environment.tar.gz"
    pack = [sys.executable, "-m", "venv_pack", "-p", str(environment), "-o", str(archive)]
    subprocess.run(pack, check=True, capture_output=True)
    return archive


@pytest.mark.timeout(600)
def test_program_takes_the_first_steps_with_the_environment_that_it_sends(
    cluster: SparkCluster,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    orders, invoices = topic(partitions=3), topic(partitions=3)
    confluent.produce(orders, [Message(key=b"ann", value=b"3"), Message(key=b"bob", value=b"5")])
    archive = pack_environment(folder)
    steps = first_steps(bootstrap=node.bootstrap, orders=orders, invoices=invoices, folder=folder)
    program = folder / "job.py"
    program.write_text(steps + WHERE, "utf-8")
    command = [str(SPARK_HOME / "bin" / "spark-submit")]
    command += ["--archives", f"{archive}#environment", "--driver-memory", "512m"]
    command += ["--driver-java-options", SHORT_LIVED_JAVA]
    for name, value in cluster.settings.items():
        command += ["--conf", f"{name}={value}"]
    ended = run_program(
        [*command, str(program)],
        folder=folder,
        PYSPARK_PYTHON=PYTHON,
        PYSPARK_DRIVER_PYTHON=PYTHON,
        PYTHONPATH="",
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"bob\s*\|\s*5", ended.stdout)
    [found] = re.findall(r"^FOUND (.*)$", ended.stdout, re.MULTILINE)
    assert Path(found).is_relative_to(folder / "cluster")  # where the executor has unpacked it
    written = committed_records(node.bootstrap, invoices)
    assert sorted((one.key, one.value) for one in written) == [
        (b"ann", b"pay 3"),
        (b"bob", b"pay 5"),
    ]
