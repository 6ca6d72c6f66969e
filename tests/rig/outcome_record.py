"""A pytest plugin: `--outcome-record=FILE` writes what came of a run, when it ends.

    {"status": 1, "passed": 2077, "failed": ["tests/broker/api/test_fetch.py::test_..."]}

`status` is pytest's exit status. A run that crashes or is killed writes nothing. One that does not
end by itself afterwards, as a thread goes on, is ended with what its threads were doing.
"""

import faulthandler
import json
from pathlib import Path

import pytest

OPTION = "--outcome-record"
END_OPTION = "--end-seconds-max"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", type=Path, help="write there which tests failed")
    parser.addoption(
        END_OPTION, type=float, default=60, help="how long the process may go on after the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption(OPTION)
    if path is not None:
        config.pluginmanager.register(OutcomeRecord(path.absolute()))


class OutcomeRecord:
    """A test is passed when its call passed and nothing failed before or after it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.unlink(missing_ok=True)
        self._passed: set[str] = set()
        self._failed: dict[str, None] = {}  # in the order of the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self._passed.add(report.nodeid)

    # After all others: what fails at the end of the session changes the status.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        outcome = {
            "status": int(exitstatus),
            "passed": len(self._passed.difference(self._failed)),
            "failed": list(self._failed),
        }
        self._path.write_text(json.dumps(outcome) + "\n", encoding="utf-8")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        # The status is 1 then, and the record that of a success: .ci/run fails.
        faulthandler.dump_traceback_later(config.getoption(END_OPTION), exit=True)
