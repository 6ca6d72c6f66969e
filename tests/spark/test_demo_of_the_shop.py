"""`penstock demo` as a person starts it: three nodes, Spark, SIGKILLs to both, and the proof."""

import json
import subprocess

import pytest

from penstock.spark.pipelines.commerce.proof import OUTPUTS
from rig.served_cluster import PENSTOCK

SECONDS_MAX = 840

# A Spark, killed and started again, takes its time where others are at work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS_MAX + 30)]


def test_a_leader_and_spark_are_killed_and_every_output_is_there_once() -> None:
    ended = subprocess.run(
        [PENSTOCK, "demo", "--events", "900", "--json"],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads(ended.stdout)
    assert (told["proven"], told["events"], told["nodes"]) == (True, 900, 3)
    found = {one["what"]: one for one in told["outputs"]}
    assert set(OUTPUTS) < set(found)
    for one in found.values():
        assert (one["duplicates"], one["missing"], one["wrong"]) == (0, 0, 0), one
    assert "SIGKILL to node" in ended.stderr
    assert "SIGKILL to the Spark driver" in ended.stderr
