"""`.ci/run` runs tests that failed once more and names them; whatever else goes wrong fails."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.slow_until import VARIABLE as SLOW_UNTIL
from rig.source_tree import ROOT

# The sample is one part of many; what `make lint` finds is a file that may be missing.
MAKEFILE = """
passed = '{"status": 0, "passed": 9, "failed": []}'

test: lint-passes
\t@for part in rules spark nodes peer; do echo $(passed) >.venv/.penstock-$$part.json; done
\t@.venv/bin/python -m pytest --outcome-record=.venv/.penstock-clients.json --end-seconds-max=2 \\
\t\ttest_sample.py

test-slow: lint-passes
\t@for part in rules spark nodes clients peer; do \\
\t\techo $(passed) >.venv/.penstock-slow-$$part.json; done
"""
CONFTEST = 'pytest_plugins = ["outcome_record"]\n'
FAILS_ONCE = """
from pathlib import Path

def test_{name}():
    before = Path("{name}").exists()
    Path("{name}").touch()
    assert before
"""
PASSES = "def test_well(): pass\n"
Run = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `.ci/run` on a tree whose tests are `sample`."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests" / "rig" / "outcome_record.py", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "lint-passes").touch()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")

    def run(sample: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_sample.py").write_text(sample)
        environment = {**os.environ, "CI": "true", "PYTHONPATH": str(tmp_path)}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they would take most of the time
        for name in ("MAKEFLAGS", "MAKELEVEL", "PYTEST_ADDOPTS"):
            environment.pop(name, None)
        return subprocess.run(
            [tmp_path / ".ci" / "run"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )

    return run


def last_line(outcome: subprocess.CompletedProcess[str]) -> str:
    return outcome.stdout.splitlines()[-1]


def test_what_passes_at_once_is_not_run_again(run: Run) -> None:
    outcome = run(PASSES)
    assert outcome.returncode == 0
    assert outcome.stdout.count("1 passed") == 1
    assert "flaky" not in outcome.stdout


def test_tests_that_pass_in_the_second_run_are_named_as_flaky(run: Run) -> None:
    sample = PASSES + FAILS_ONCE.format(name="one") + FAILS_ONCE.format(name="other")
    outcome = run(sample)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "2 failed, 1 passed" in outcome.stdout
    assert "\n2 passed" in outcome.stdout
    names = "test_sample.py::test_one test_sample.py::test_other"
    assert last_line(outcome) == f"flaky: {names}"


def test_a_test_that_fails_twice_fails(run: Run) -> None:
    sample = FAILS_ONCE.format(name="one") + "def test_wrong(): assert False\n"
    outcome = run(sample)
    assert outcome.returncode == 1
    assert last_line(outcome) == "failed: twice: test_sample.py::test_wrong"


SKIPPED_LATER = """
import pytest
from pathlib import Path

def test_skipped_later():
    if Path("seen").exists():
        pytest.skip("no longer wanted")
    Path("seen").touch()
    assert False
"""
CRASHES_AFTER_A_FAILURE = FAILS_ONCE.format(name="one") + "def test_x(): import os; os._exit(7)\n"
LEAVES_A_THREAD = """
import threading
import time

def test_well():
    threading.Thread(target=goes_on).start()

def goes_on():
    time.sleep(300)
"""
MANY_FAIL_ONCE = "".join(FAILS_ONCE.format(name=f"number_{number}") for number in range(21))


@pytest.mark.parametrize(
    "sample, reason",
    [
        (CRASHES_AFTER_A_FAILURE, "failed: .penstock-clients.json is missing"),
        ("import absent_module\n", "failed: .penstock-clients.json: pytest ended with status 2"),
        (MANY_FAIL_ONCE, "failed: 21 tests failed, and at most 20 are run again"),
        (SKIPPED_LATER, "failed: 0 of 1 tests passed in the second run"),
        (LEAVES_A_THREAD, "failed: no test failed, so the cause is elsewhere"),
    ],
    ids=["crash", "collection", "many", "skipped", "thread"],
)
def test_what_a_second_run_could_hide_fails(run: Run, sample: str, reason: str) -> None:
    outcome = run(sample)
    assert outcome.returncode == 1
    assert last_line(outcome).startswith(reason), outcome.stdout


def test_what_a_run_was_doing_that_does_not_end_is_told(run: Run) -> None:
    outcome = run(LEAVES_A_THREAD)
    assert 'test_sample.py", line 9 in goes_on' in outcome.stderr, outcome.stderr


def test_style_and_types_are_not_tried_again(run: Run, tmp_path: Path) -> None:
    """Nor does the record of an earlier run count."""
    assert run(FAILS_ONCE.format(name="one")).returncode == 0
    (tmp_path / "one").unlink()
    (tmp_path / "lint-passes").unlink()
    outcome = run(FAILS_ONCE.format(name="one"))
    assert outcome.returncode == 1
    assert last_line(outcome).startswith("failed: .penstock-rules.json is missing")


def run_again(
    folder: Path, test: str, *, sample: str, seconds_left: int
) -> subprocess.CompletedProcess[str]:
    """The second run alone, of one test of `sample`; the time for slow tests is over."""
    for plugin in ("outcome_record.py", "slow_until.py"):
        shutil.copy(ROOT / "tests" / "rig" / plugin, folder)
    (folder / "conftest.py").write_text('pytest_plugins = ["outcome_record", "slow_until"]\n')
    (folder / "test_sample.py").write_text(sample)
    record = folder / "part.json"
    record.write_text(json.dumps({"status": 1, "passed": 0, "failed": [f"test_sample.py::{test}"]}))
    command = [sys.executable, ROOT / ".ci" / "run_failed_again.py"]
    environment = {**os.environ, "PYTHONPATH": str(folder), SLOW_UNTIL: "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        [*command, "--until", str(time.time() + seconds_left), record],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_second_run_ends_in_time(tmp_path: Path) -> None:
    waits = "import time\n\ndef test_waits(): time.sleep(300)\n"
    outcome = run_again(tmp_path, "test_waits", sample=waits, seconds_left=3)
    assert outcome.returncode == 1
    assert last_line(outcome) == "failed: there was no time to end the second run"


def test_a_second_run_leaves_out_no_slow_test(tmp_path: Path) -> None:
    """It has an end of its own."""
    slow = "import pytest\n\n@pytest.mark.slow\ndef test_ordeal(): pass\n"
    outcome = run_again(tmp_path, "test_ordeal", sample=slow, seconds_left=90)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert last_line(outcome) == "flaky: test_sample.py::test_ordeal"
