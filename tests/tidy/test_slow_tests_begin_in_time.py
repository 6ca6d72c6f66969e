"""PENSTOCK_SLOW_UNTIL, as `.ci/run` sets it: no slow test begins later, and all others run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rig.slow_until import VARIABLE
from rig.source_tree import ROOT

SAMPLE = """
import pytest

@pytest.fixture(scope="module")
def node():
    print("a node is started")

@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_ordeal(node, seed): pass

def test_rule(): pass
"""
CONFTEST = """
pytest_plugins = ["rig.slow_until"]

def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")
"""


@pytest.mark.parametrize(
    "seconds_left, outcome",
    [(-1, "1 passed, 2 skipped"), (3600, "3 passed"), (None, "3 passed")],
    ids=["too late", "in time", "whenever"],
)
def test_slow_tests_are_skipped_when_it_is_too_late(
    tmp_path: Path, seconds_left: int | None, outcome: str
) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they would take most of the time
    environment.pop("PYTEST_ADDOPTS", None)
    environment.pop(VARIABLE, None)
    if seconds_left is not None:
        environment[VARIABLE] = str(int(time.time()) + seconds_left)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-s", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert outcome in run.stdout
    assert ("a node is started" in run.stdout) == ("3 passed" in outcome)
    for name in ("test_sample.py::test_ordeal[1]", "test_sample.py::test_ordeal[2]"):
        assert (f"{name}: slow, and no time is left" in run.stdout) == ("skipped" in outcome)
