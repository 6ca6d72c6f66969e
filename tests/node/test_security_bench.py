"""`bench/security.py --quick` comes to its figures, so that they can be had when they are wanted.

Apache Kafka is left out: the bench starts it as the tests of tests/peer do.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.source_tree import ROOT

WAIT_S = 300
pytestmark = pytest.mark.skipif(
    shutil.which("go") is None, reason="Go is not installed, which builds the load"
)


def quick(folder: Path, *arguments: str) -> tuple[str, list[dict[str, Any]]]:
    """What the bench prints, and the lines that it writes."""
    output = folder / "runs.jsonl"
    command = [sys.executable, str(ROOT / "bench" / "security.py"), *arguments, "--quick"]
    command += ["--folder", str(folder), "--output", str(output)]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout, [json.loads(line) for line in output.read_text().splitlines()]


def test_batches_are_written_and_read_over_tls_and_in_plain_text(tmp_path: Path) -> None:
    shown, lines = quick(tmp_path, "tls", "--broker", "penstock", "--only", "16KiB")
    suites = {line["case"]: line["measured"]["cipher"] for line in lines}
    assert set(suites) == {
        f"{kind}/1KB/16KiB/{listener}"
        for kind in ("produce", "fetch")
        for listener in ("PLAINTEXT", "SSL")
    }
    for case, suite in suites.items():
        assert suite.startswith("TLS_") == case.endswith("/SSL"), case
    assert all(line["measured"]["bytes"] > 0 for line in lines)
    assert "produce/1KB/16KiB/SSL" in shown


def test_log_ins_of_every_mechanism_are_counted(tmp_path: Path) -> None:
    shown, lines = quick(tmp_path, "logins", "--broker", "penstock")
    ways = {(line["listener"], line["mechanism"]) for line in lines}
    assert ways == {
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    }
    assert {line["measured"]["requests"] for line in lines} == {40}
    assert "SASL_SSL SCRAM-SHA-512" in shown


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_all_wrong_passwords_are_refused_while_another_client_is_served(
    tmp_path: Path, listener: str
) -> None:
    asked = ("logins", "--broker", "penstock", "--failed", "30", "--listener", listener)
    _, lines = quick(tmp_path, *asked)
    found = {line["when"]: line["measured"] for line in lines}
    assert found["refused"]["requests"] == 30
    for when in ("before", "during"):
        assert found[when]["requests"] > 0
        assert found[when]["p50_ms"] <= found[when]["p99_ms"] <= found[when]["max_ms"]


def test_requests_are_compared_in_pairs_with_and_without_acls(tmp_path: Path) -> None:
    shown, lines = quick(tmp_path, "acls")
    summaries = {line["request"]: line["percent"] for line in lines if "percent" in line}
    assert set(summaries) == {"produce", "fetch"}
    for summary in summaries.values():
        assert summary["low"] <= summary["median"] <= summary["high"]
        assert summary["coverage"] == 0.5  # of two pairs
    runs = [(line["pair"], line["request"], line["authorizer"]) for line in lines if "pair" in line]
    assert [name for _, request, name in runs if request == "fetch"] == [
        *("off", "on"),
        *("on", "off"),
        *("off", "on"),
    ]
    assert "200 ACLs" in shown


def test_a_client_is_served_beside_strangers_of_every_kind(tmp_path: Path) -> None:
    shown, lines = quick(tmp_path, "strangers", "--broker", "penstock")
    opened = {line["way"]: line["strangers"]["requests"] for line in lines if "strangers" in line}
    assert set(opened) == {"idle", "half", "junk"}
    assert all(count >= 30 for count in opened.values())
    assert {line["way"] for line in lines if line.get("beside")} == {"idle", "half", "junk"}
    assert all(line["measured"]["seconds"] >= 0.3 for line in lines if "measured" in line)
    assert all(line["during_mib"] > 0 for line in lines if "during_mib" in line)
    assert "half-way through the handshake" in shown
