"""`penstock produce` waits for brokers that are away for longer than its buffer takes to fill."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.serve import ServedNode

Run = Callable[..., Any]
FULL_S = 2.5  # the buffer is full for so long; commands wait for an unknown topic for one second
LINES = 90
LINE = b"x" * 700_000 + b"\n"  # all of them are twice what a producer holds


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    node = ServedNode(data=tmp_path / "data")
    node.start()
    yield node
    node.kill()


def written_until_full(descriptor: int, data: bytes) -> int:
    """How many bytes the reader takes before it takes none for a while."""
    written = 0
    os.set_blocking(descriptor, False)
    while select.select([], [descriptor], [], FULL_S)[1]:
        written += os.write(descriptor, data[written : written + 65_536])
        assert written < len(data), "the reader has room for everything"
    os.set_blocking(descriptor, True)
    return written


@pytest.mark.parametrize("options", [[], ["--transactional-id", "loader"]])
def test_an_outage_with_a_full_buffer_loses_nothing(
    run: Run, node: ServedNode, options: list[str]
) -> None:
    assert run("topics create orders", bootstrap=node.bootstrap).status == 0
    command = [sys.executable, "-m", "penstock.cli.main", "produce", "orders", *options]
    producing = subprocess.Popen(
        [*command, "--bootstrap", node.bootstrap], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert producing.stdin is not None
    producing.stdin.write(b"first\n")
    producing.stdin.flush()
    assert run("consume orders --follow --from earliest --max 1").lines == ["first"]
    os.kill(node.pid, signal.SIGSTOP)
    data = LINE * LINES
    try:
        taken = written_until_full(producing.stdin.fileno(), data)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    _, said = producing.communicate(data[taken:], timeout=120)
    assert said.decode() == f"produced {LINES + 1} records to orders\n"
    assert producing.returncode == 0
