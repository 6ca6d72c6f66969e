"""Where no compiler was, the twin serves and all is as before, only slower."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

# A module that is None in sys.modules can't be imported, as if it had never been compiled.
ABSENT = """
import sys
for part in ("walk", "columns", "write", "keys", "xxhash"):
    sys.modules["penstock.records.kernel." + part] = None
"""


def run(code: str, *arguments: str) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", ABSENT + code, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=FOLDER.parents[1],
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def test_the_twin_takes_its_place() -> None:
    code = """
from penstock.records import keys, walk, write, xxhash
print(walk.KERNEL.value)
for found in (walk.check_records, write.encode_records, keys.KeyOffsets, xxhash.xxh32):
    print(found.__module__)
"""
    assert run(code).split() == [
        "python",
        "penstock.records.twin.walk",
        "penstock.records.twin.write",
        "penstock.records.twin.keys",
        "penstock.records.twin.xxhash",
    ]


def test_the_rules_for_produced_batches_are_the_same() -> None:
    code = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    rules = ("test_produced_batch_rules.py", "test_round_trip.py", "test_lz4_frames.py")
    run(code, "-p", "no:cacheprovider", *(str(FOLDER / name) for name in rules))


def test_a_node_says_that_it_runs_without(tmp_path: Path) -> None:
    """It says so before it opens its data, which here is a file and no directory."""
    data = tmp_path / "data"
    data.write_text("no directory")
    code = "from penstock.cli.main import main; main()"
    outcome = subprocess.run(
        [sys.executable, "-c", ABSENT + code, "serve", "--data", data, "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome.returncode == 1
    assert "record_kernel kind=python" in outcome.stderr, outcome.stderr
