"""The programs that measure Spark come to their figures, so that they can be had when wanted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.source_tree import ROOT

pytestmark = pytest.mark.slow

WAIT_S = 600
OURS = {"exactly once", "at least once", "before", "floor"}


def lines_of(folder: Path, program: str, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    """What the bench prints, and the lines that it writes; "before" is a copy of this checkout."""
    output, before = folder / "runs.jsonl", folder / "before"
    shutil.copytree(ROOT / "src", before, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, str(ROOT / "bench" / program), "--quick", *arguments]
    command += ["--output", str(output), "--before", str(before)]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout, [json.loads(line) for line in output.read_text().splitlines()]


def test_reading_and_writing_are_compared_with_floors_and_the_code_before(tmp_path: Path) -> None:
    sizes = ("--arrow-rows", "100", "--chunk-kib", "64")
    shown, lines = lines_of(tmp_path, "spark_compare.py", "--only", "1000 B", *sizes)
    ways: dict[str, set[str]] = {}
    for line in lines:
        ways.setdefault(line["case"], set()).add(line["way"])
        assert line["seconds"] > 0
    assert {case: found - {"connector"} for case, found in ways.items()} == {
        "read 1000 B, 12 partitions": {"ours", "before", "floor"},
        "write 1000 B, 12 partitions": OURS | {"100 rows, 64 KiB"},
        "pass 1000 B with headers on": OURS | {"100 rows, 64 KiB"},
    }
    assert all(line["cpu"]["python"] > 0 for line in lines if line["way"] != "connector")
    assert "above floor" in shown


def test_batches_are_followed_from_their_trigger_until_they_are_visible(tmp_path: Path) -> None:
    shown, lines = lines_of(tmp_path, "spark_latency.py")
    found = {line["way"]: line for line in lines}
    assert set(found) - {"connector"} == OURS
    for way, line in found.items():
        [batch] = line["batches"]
        assert batch["rows"] == 2
        assert (batch["visible"] is None) == (way == "floor")
        assert (line["requests"]["counts"].get("EndTxn", 0) > 0) == (
            way in ("exactly once", "before")
        )
    assert "trigger to visible" in shown
