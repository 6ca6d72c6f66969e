"""Every example does what its first lines say: it checks that itself, and ends with `ok`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import Broker
from rig.small_spark import SHORT_LIVED_JAVA
from rig.source_tree import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "shop.py")
STREAMS = EXAMPLES / "streams_word_count.py"
# No group of these could be told which protocol to use: they have none, or their library knows one.
ONE_PROTOCOL = {
    "transactional_producer",
    "transactional_producer_kafka_python",
    "read_process_write_kafka_python",
}
WAYS_TO_RUN = [
    (script, protocol)
    for script in SCRIPTS
    if script != STREAMS
    for protocol in ("classic", "consumer")
    if protocol == "classic" or script.stem not in ONE_PROTOCOL
]


def run(script: Path, *arguments: str, **environment: str) -> list[str]:
    outcome = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={**os.environ, **environment},
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "protocol"),
    WAYS_TO_RUN,
    ids=[f"{script.stem}-{protocol}" for script, protocol in WAYS_TO_RUN],
)
def test_example_keeps_its_promise(penstock_session: Broker, script: Path, protocol: str) -> None:
    printed = run(script, "--bootstrap", penstock_session.bootstrap, "--protocol", protocol)
    assert printed[-1].startswith("ok: ")


@pytest.mark.parametrize("name", ["queue_mode", "read_process_write"])
def test_example_keeps_its_promise_on_three_nodes_of_its_own(name: str) -> None:
    printed = run(EXAMPLES / f"{name}.py", "--nodes", "3", PENSTOCK_BOOTSTRAP="")
    assert printed[0].count("127.0.0.1:") == 3
    assert printed[-1].startswith("ok: ")


def test_the_example_of_kafka_streams_keeps_its_promise(
    penstock_session: Broker, streams_jars: Path
) -> None:
    printed = run(
        STREAMS,
        *("--bootstrap", penstock_session.bootstrap),
        STREAMS_JARS=str(streams_jars),
        JDK_JAVA_OPTIONS=SHORT_LIVED_JAVA,
    )
    assert printed[-1].startswith("ok: ")


def test_example_without_a_broker_brings_its_own() -> None:
    printed = run(EXAMPLES / "publish_subscribe.py")
    assert printed[0].startswith("no --bootstrap given")
    assert printed[-1].startswith("ok: ")


def test_every_example_is_told_of_in_a_guide() -> None:
    guides = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md"))
    assert [script.name for script in SCRIPTS if f"examples/{script.name}" not in guides] == []
