"""Java clients of earlier releases create a topic, write to it and read it as a group."""

import subprocess
from pathlib import Path

import pytest

from rig.apache_kafka.jars import PeerMissing, fetched_client_jars
from rig.apache_kafka.java import compiled, java_command
from rig.source_tree import ROOT

PROGRAM = ROOT / "tests" / "rig" / "java" / "FirstSteps.java"
PROGRAM_SECONDS_MAX = 200
COUNT = 20

# 3.4.1 comes with Spark 3.5; 3.7 is the last that takes no feature from level 0 (KAFKA-17011).
RELEASES = ("3.4.1", "3.7.2")


@pytest.mark.parametrize("release", RELEASES)
def test_client_writes_and_reads(bootstrap: str, tmp_path: Path, release: str) -> None:
    try:
        jars = fetched_client_jars(release)
    except PeerMissing as missing:
        pytest.skip(f"needs Java's client {release}: {missing}")
    classes = compiled([PROGRAM], jars=jars, folder=tmp_path)
    java = java_command(jars, heap_mib=64, folder=tmp_path, classes=classes)
    ran = subprocess.run(
        [*java, "FirstSteps", bootstrap, f"java-{release}", str(COUNT)],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
    )
    assert ran.stdout == f"read {COUNT}\n", ran.stderr
