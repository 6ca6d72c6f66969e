"""Every example does what its first lines say: it checks that itself, and ends with `ok`."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import Broker
from rig.source_tree import ROOT

EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "shop.py")


def run(script: Path, *arguments: str) -> list[str]:
    outcome = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout.splitlines()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_keeps_its_promise(penstock_session: Broker, script: Path, protocol: str) -> None:
    printed = run(script, "--bootstrap", penstock_session.bootstrap, "--protocol", protocol)
    assert printed[-1].startswith("ok: ")


def test_example_without_a_broker_brings_its_own() -> None:
    printed = run(EXAMPLES / "publish_subscribe.py")
    assert printed[0].startswith("no --bootstrap given")
    assert printed[-1].startswith("ok: ")


def test_every_example_is_told_of_in_the_guide() -> None:
    guide = (ROOT / "docs" / "consumer-groups.md").read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if f"examples/{script.name}" not in guide] == []
