"""Outputs that are closed, or that nobody reads: a command does its work and keeps its status."""

import os
import subprocess
import sys
from pathlib import Path

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


def status_where_nobody_reads(output: str, command: str) -> int:
    """That of the command, when its `output` is a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    null = subprocess.DEVNULL
    words = [sys.executable, "-m", "penstock.cli.main", *command.split()]
    with os.fdopen(writer, "wb") as closed:
        out, err = (closed, null) if output == "stdout" else (null, closed)
        return subprocess.run(words, stdout=out, stderr=err, timeout=120, check=False).returncode


OPENED = """
import os
from penstock.cli.outputs import open_missing_outputs
open_missing_outputs()
raise SystemExit(os.open(os.devnull, os.O_RDONLY))
"""


@pytest.mark.parametrize("redirected", [">&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_is_taken_for_an_output(redirected: str) -> None:
    words = [sys.executable, "-c", OPENED]
    done = subprocess.run(["sh", "-c", f'exec "$@" {redirected}', "sh", *words], check=False)
    assert done.returncode > 2


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


@pytest.mark.parametrize("command", ["topicz", "topics"])
def test_an_error_that_nobody_reads_keeps_its_status(command: str) -> None:
    assert status_where_nobody_reads("stderr", command) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_status() -> None:
    assert penstock("topicz", redirected="2>/dev/full").returncode == 2


@pytest.mark.parametrize(
    ("output", "command"),
    [
        ("stdout", "sim run --seeds 1 --workers 1"),
        ("stdout", "sim quorum --seeds 1 --workers 1"),
        ("stdout", "demo --plain --records 1000"),
        ("stderr", "demo --plain --records 1000 --json"),
    ],
)
def test_what_is_shown_to_nobody_ends_a_command_as_a_broken_pipe_does(
    output: str, command: str
) -> None:
    assert status_where_nobody_reads(output, command) == 141
