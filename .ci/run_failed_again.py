"""Runs the tests that failed once more, alone, after a `make test test-slow` that failed.

    python .ci/run_failed_again.py --until SECONDS_SINCE_THE_EPOCH RECORD...

Each part of the tests writes a record at its end (tests/rig/outcome_record.py). The exit status
is 0, and the last line `flaky: NAME ...`, if failed tests were all that went wrong and each of them
passes now. It is 1 if

 - a record is missing: style, types or the build failed, or the part crashed or was killed;
 - pytest ended with a status other than 0 and 1, as it does after an error of collection;
 - more than FAILED_MAX tests failed: that is no accident of timing;
 - a test fails again, is skipped, or goes on after the time that is given.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAILED_MAX = 20
SLOW_UNTIL = "PENSTOCK_SLOW_UNTIL"  # of tests/rig/slow_until.py


class NotRetried(Exception):
    """Something went wrong that a second run must not hide."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--until", type=float, required=True)
    parser.add_argument("records", nargs="+", type=Path)
    options = parser.parse_args()
    try:
        failed = failed_tests(options.records)
        print(f"\n== {len(failed)} failed, and run once more, alone", flush=True)
        run_again(failed, seconds_max=options.until - time.time())
    except NotRetried as reason:
        print(f"\nfailed: {reason}", flush=True)
        return 1
    print("\nflaky:", *failed, flush=True)
    return 0


def failed_tests(records: list[Path]) -> list[str]:
    failed: list[str] = []
    for record in records:
        if not record.exists():
            raise NotRetried(f"{record.name} is missing: a check, the build or a part did not end")
        outcome = json.loads(record.read_text(encoding="utf-8"))
        if outcome["status"] not in (0, 1):
            raise NotRetried(f"{record.name}: pytest ended with status {outcome['status']}")
        failed += outcome["failed"]
    if not failed:
        raise NotRetried("no test failed, so the cause is elsewhere")
    if len(failed) > FAILED_MAX:
        raise NotRetried(f"{len(failed)} tests failed, and at most {FAILED_MAX} are run again")
    return failed


def run_again(tests: list[str], *, seconds_max: float) -> None:
    # Slow tests that failed are not left out, as late as it may be: `seconds_max` bounds them.
    environment = {name: value for name, value in os.environ.items() if name != SLOW_UNTIL}
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "again.json"
        command = [sys.executable, "-m", "pytest", f"--outcome-record={record}", *tests]
        try:
            subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                timeout=seconds_max,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotRetried("there was no time to end the second run") from None
        if not record.exists():
            raise NotRetried("the second run crashed")
        outcome = json.loads(record.read_text(encoding="utf-8"))
    if outcome["failed"]:
        raise NotRetried(" ".join(["twice:", *outcome["failed"]]))
    if outcome["status"] != 0 or outcome["passed"] != len(tests):
        raise NotRetried(f"{outcome['passed']} of {len(tests)} tests passed in the second run")


if __name__ == "__main__":
    sys.exit(main())
