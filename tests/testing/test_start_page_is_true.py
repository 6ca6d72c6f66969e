"""docs/start.md: what it shows works as it stands, in the order in which it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.testing import Broker
from rig.source_tree import ROOT

PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
DEFAULT = "127.0.0.1:9092"


def blocks(section: str, language: str = "") -> list[str]:
    [text] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [content for named, content in found if named == language]


def test_records_a_client_and_its_group(penstock: Broker) -> None:
    environment = {**os.environ, "PENSTOCK_BOOTSTRAP": penstock.bootstrap}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def session(block: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", block], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    [records] = blocks("Records")
    assert sorted(re.findall(r"^sku-\d:\d$", session(records), re.MULTILINE)) == [
        "sku-1:3",
        "sku-1:4",
        "sku-2:5",
    ]
    [program] = blocks("Your own client", "python")
    assert DEFAULT in program
    client = subprocess.run(
        [sys.executable, "-c", program.replace(DEFAULT, penstock.bootstrap)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert sorted(client.stdout.splitlines()) == [
        "b'sku-1' b'3'",
        "b'sku-1' b'4'",
        "b'sku-2' b'5'",
        "b'sku-3' b'7'",
    ]
    [group] = blocks("Your own client")
    described, *_ = session(group).split("\n")
    assert described.startswith("billing  state Empty")
    assert described.endswith("lag 0")
