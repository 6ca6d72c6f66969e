"""Programs as users run them: with the environment of the tests, to their end."""

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.spark.java import java_home
from rig.source_tree import ROOT

PROGRAM_SECONDS_MAX = 300
GUIDE = ROOT / "docs" / "spark.md"


def first_steps(*, bootstrap: str, orders: str, invoices: str, folder: Path) -> str:
    """The program of docs/spark.md, with other brokers, topics and checkpoints."""
    _, section = GUIDE.read_text("utf-8").split("\n## First steps\n")
    section, *_ = section.split("\n## ")
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    program = "\n".join(blocks).replace("127.0.0.1:9092", bootstrap)
    program = program.replace('"checkpoints/', f'"{folder}/')
    return program.replace('"orders"', f'"{orders}"').replace('"invoices"', f'"{invoices}"')


def run_program(
    command: list[str], *, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        cwd=folder,
        env={**spark_environment(), **environment},
    )


def spark_environment() -> dict[str, str]:
    """What Spark's own commands have to be told."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    home = java_home(environment)
    return environment if home is None else {**environment, "JAVA_HOME": str(home)}
