"""`penstock pipeline run` as a user has it: a process of its own, ended by Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.spark.pipelines.place import Place
from penstock.spark.pipelines.wordcount.generate import events
from penstock.spark.pipelines.wordcount.names import COUNTS
from rig.pipeline_input import make_topics, produce
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.small_spark import SHORT_LIVED_JAVA

pytestmark = pytest.mark.slow

SECONDS_MAX = 300
LINES = 100


def test_a_pipeline_runs_until_ctrl_c_and_then_tells_what_it_did(
    node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    before = len(committed_records(node.bootstrap, COUNTS))
    produce(node.bootstrap, islice(events(2), LINES))
    command = [str(Path(sys.executable).with_name("penstock")), "pipeline", "run", "wordcount"]
    command += ["--bootstrap", node.bootstrap, "--master", "local[2,3]", "--json"]
    command += ["--folder", str(folder)]
    told = folder / "told"
    with (
        told.open("wb") as stderr,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA},
        ) as child,
    ):
        try:
            deadline_s = time.monotonic() + SECONDS_MAX
            while len(committed_records(node.bootstrap, COUNTS)) == before and child.poll() is None:
                assert time.monotonic() < deadline_s, told.read_text()
                time.sleep(0.2)
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=SECONDS_MAX)
        finally:
            child.kill()
    assert child.returncode == 0, told.read_text()
    assert "waiting: the queries of wordcount are being started\n" in told.read_text()
    # What is committed may be seen before Spark has counted it, so the figures may lag behind.
    assert [figures["query"] for figures in json.loads(out)] == [COUNTS]


def test_after_the_stack_traces_of_a_failed_query_the_last_line_says_why(
    node: ServedNode, folder: Path
) -> None:
    make_topics(node.bootstrap, "wordcount")
    checkpoint = Path(Place(bootstrap=node.bootstrap, folder=str(folder)).checkpoint(COUNTS))
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    (checkpoint / "offsets" / "0").write_text("v999\n{}\n")  # of a Spark that is not made yet
    command = [str(Path(sys.executable).with_name("penstock")), "pipeline", "run", "wordcount"]
    command += ["--bootstrap", node.bootstrap, "--master", "local[2,3]", "--folder", str(folder)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA},
    )
    assert done.returncode == 1, done.stdout
    assert "\n\tat org.apache.spark." in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"penstock: query {COUNTS} failed: ")
    assert "v999" in last
