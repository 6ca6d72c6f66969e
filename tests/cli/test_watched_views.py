"""`--watch` of commands that show a cluster: redrawn on a terminal, else one after the other."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.cli import status
from penstock.testing import Broker, running_broker
from rig.cluster_questions import PATIENCE_SECONDS
from rig.command import Outcome
from rig.live_terminal import LiveTerminal
from rig.operating.balancing import SkewedLoad
from rig.reassigning import create_on

Run = Callable[..., Outcome]

VIEWS = (
    "cluster describe --interval 0.2",
    "cluster quorum --interval 0.2",
    "cluster log-dirs --interval 0.2",
    "cluster features --interval 0.2",
    "partitions hot --for 1s",
)
# A line that each view of a quiet node has.
LINES = {
    "describe": "feature",
    "quorum": "leader 1",
    "log-dirs": "online",
    "features": "kraft.version",
    "hot": "nothing was written or read",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as made:
        yield made


@contextmanager
def watching(command: str, broker: Broker) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process, into a pipe, and the lines that it has printed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.main", *command.split(), "--watch"],
            env={**os.environ, "PENSTOCK_BOOTSTRAP": broker.bootstrap},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process, []
    finally:
        process.kill()
        process.communicate()


def read_until(
    process: subprocess.Popen[str], lines: list[str], enough: Callable[[], bool]
) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not enough():
        assert time.monotonic() < deadline, lines[-1]
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        lines.append(line.rstrip("\n"))


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == status.INTERRUPTED


def shown(command: str, lines: list[str]) -> int:
    mark = LINES[command.split()[1]]
    return sum(mark in line for line in lines)


@pytest.mark.parametrize("command", VIEWS)
def test_a_pipe_gets_one_view_after_the_other_until_ctrl_c(command: str, broker: Broker) -> None:
    with watching(command, broker) as (process, lines):
        read_until(process, lines, lambda: shown(command, lines) == 3)
        interrupt(process)
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("command", VIEWS)
def test_with_json_each_view_is_a_line(command: str, broker: Broker) -> None:
    with watching(f"{command} --json", broker) as (process, lines):
        read_until(process, lines, lambda: len(lines) == 2)
        interrupt(process)
    assert all(isinstance(json.loads(line), dict | list) for line in lines)


@pytest.mark.parametrize("command", VIEWS)
def test_a_terminal_is_redrawn_and_given_back(command: str, broker: Broker) -> None:
    words = [*command.split(), "--watch", "--bootstrap", broker.bootstrap]
    with LiveTerminal(words) as terminal:
        first = terminal.until("a view", lambda lines: shown(command, lines) == 1)
        terminal.until("another one", lambda lines: lines[0] != first[0])
        assert "q or Ctrl-C ends" in first[0]
        terminal.press(b"q")
        assert terminal.end() == 0


def test_ctrl_c_gives_the_terminal_back(broker: Broker) -> None:
    words = ["cluster", "quorum", "--watch", "--bootstrap", broker.bootstrap]
    with LiveTerminal(words) as terminal:
        terminal.until("a view", lambda lines: any("leader 1" in line for line in lines))
        terminal.press(b"\x03")
        assert terminal.end() == status.INTERRUPTED


def test_a_cluster_that_is_away_is_told_and_asked_again() -> None:
    with running_broker() as gone:
        words = ["cluster", "describe", "--interval", "0.2", "--watch"]
        with LiveTerminal([*words, "--bootstrap", gone.bootstrap]) as terminal:
            terminal.until("a view", lambda lines: any("feature" in line for line in lines))
            gone.stop()
            away = terminal.until(
                "it is away", lambda lines: any("the cluster is away: " in one for one in lines)
            )
            assert any("feature" in line for line in away), "the last view stays"
            gone.start()
            terminal.until("it is back", lambda lines: not any("is away" in line for line in lines))
            terminal.press(b"q")
            assert terminal.end() == 0


def test_a_first_view_that_fails_is_one_line(run: Run, broker: Broker) -> None:
    refused = run("cluster log-dirs --broker 9 --watch", bootstrap=broker.bootstrap)
    assert (refused.status, refused.err) == (1, "penstock: no broker 9 is known in the cluster\n")


def test_hot_partitions_are_measured_anew_for_each_view(broker: Broker) -> None:
    create_on(broker.bootstrap, "watched", [[1]])
    with watching("partitions hot --for 1s --keys 0 --json", broker) as (process, lines):
        with SkewedLoad(broker.bootstrap, "watched", partitions=1):
            read_until(process, lines, lambda: bool(lines) and lines[-1] != "[]")
        # Nothing is written any more, which a later view shows.
        read_until(process, lines, lambda: lines[-1] == "[]")
        interrupt(process)
    busy = next(json.loads(line) for line in lines if line != "[]")
    assert busy[0]["topic"] == "watched"


def test_a_feature_that_is_upgraded_meanwhile_is_shown(run: Run) -> None:
    with running_broker() as alone:
        command = "cluster describe --interval 0.2 --json"
        with watching(command, alone) as (process, lines):
            read_until(process, lines, lambda: len(lines) == 1)
            assert json.loads(lines[0])["features"].get("kraft.version", 0) == 0
            upgraded = run("cluster upgrade kraft.version=1", bootstrap=alone.bootstrap)
            assert upgraded.status == 0, upgraded.err
            read_until(
                process,
                lines,
                lambda: json.loads(lines[-1])["features"].get("kraft.version", 0) == 1,
            )
            interrupt(process)
