"""Outputs that are closed, or that nobody reads: a command does its work and keeps its status."""

import subprocess
import sys

import pytest


def penstock(command: str, *, redirected: str) -> subprocess.CompletedProcess[str]:
    """The command, started by a shell with these redirections."""
    words = [sys.executable, "-m", "penstock.cli.main", *command.split()]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("redirected", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("command", "status"), [("pipeline list", 0), ("topicz", 2)])
def test_a_command_without_outputs_has_its_status(
    command: str, status: int, redirected: str
) -> None:
    done = penstock(command, redirected=redirected)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)


def test_errors_are_told_without_standard_output() -> None:
    done = penstock("consume orders --bootstrap 127.0.0.1:1", redirected=">&-")
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: no broker can be reached: ")
    assert done.stderr.count("\n") == 1
