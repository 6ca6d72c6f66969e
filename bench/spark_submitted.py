"""A ready pipeline on a standalone cluster, handed to spark-submit as it is: the word count."""

import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

from spark_ordeal import Outcome, Progress, Scenario

from penstock.cli import main as command_line
from penstock.spark.pipelines.wordcount.generate import events
from penstock.spark.pipelines.wordcount.names import COUNTS
from rig.numbered_rows import Judgement, open_transactions, read_committed
from rig.serve import ServedNode
from rig.spark_cluster import SPARK_HOME, SparkCluster
from rig.spark_path import python_path

NAME = "cluster: wordcount by spark-submit"
LINES = 5_000
SEED = 1
SUBMIT_SECONDS_MAX = 300


def count_words(node: ServedNode, cluster: SparkCluster, folder: Path) -> Outcome:
    """Words in, and the counts of words out: one too many is a duplicate, one too few missing."""
    expected = Counter(
        word
        for event in islice(events(SEED), LINES)
        for word in (event.value or b"").decode().lower().strip(".,;!?").split()
    )
    scenario = Scenario(name=NAME, on_cluster=True, batches=1, rows_a_batch=expected.total())
    progress = Progress(scenario=scenario, lives=1)
    wanted = ["--count", str(LINES), "--seed", str(SEED), "--bootstrap", node.bootstrap]
    penstock(folder, "generate", "wordcount", *wanted)
    submit(cluster, folder, "pipeline", "run", "wordcount", "--once", "--bootstrap", node.bootstrap)
    found = Counter(
        {row.key.decode(): row.number for row in read_committed(node.bootstrap, COUNTS)}
    )
    judgement = Judgement(
        rows=found.total(),
        duplicates=(found - expected).total(),
        missing=(expected - found).total(),
        foreign=0,
        out_of_order=0,
        open_transactions=tuple(open_transactions(node.bootstrap)),
    )
    progress.batches = 1
    return Outcome(
        scenario=scenario, judgement=judgement, progress=progress, seconds=progress.seconds
    )


def penstock(folder: Path, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("penstock")), "pipeline", *arguments]
    ended(command, folder)


def submit(cluster: SparkCluster, folder: Path, *arguments: str) -> None:
    settings = [f"--conf={name}={value}" for name, value in cluster.settings.items()]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *settings]
    command += [str(command_line.__file__), *arguments, "--folder", str(folder / "wordcount")]
    ended(command, folder)


def ended(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=SUBMIT_SECONDS_MAX,
        env={
            **os.environ,
            "PYTHONPATH": python_path(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
