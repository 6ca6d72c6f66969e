"""The terminal that `penstock top` and `--watch` have: keys that are gone before they are read."""

import asyncio
import os
import pty
import sys
import termios
import threading
from collections.abc import Iterator

import pytest
from rich.live import Live

from penstock.cli.top_screen import Screen, full_screen

HELD_UP_SECONDS = 20


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where keys are pressed, of the terminal that is the standard input."""
    keyboard, terminal = pty.openpty()
    with open(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard
    os.close(keyboard)


def test_a_key_that_ctrl_c_has_dropped_holds_nothing_up(keyboard: int) -> None:
    held_up = threading.Event()

    def release() -> None:
        held_up.set()
        os.write(keyboard, b"x")

    async def drop_and_take() -> bool:
        with full_screen() as screen:
            os.write(keyboard, b"x")
            termios.tcflush(sys.stdin, termios.TCIFLUSH)  # the loop knows of a key, and it is gone
            timer = threading.Timer(HELD_UP_SECONDS, release)
            timer.start()
            screen.take_keys()
            timer.cancel()
            return screen.ended.is_set()

    has_ended = asyncio.run(drop_and_take())
    assert not held_up.is_set()
    assert not has_ended


@pytest.mark.parametrize("keys, ends", [(b"x", False), (b"q", True), (b"xq", True)])
def test_keys_are_taken_as_they_are_pressed(keyboard: int, keys: bytes, ends: bool) -> None:
    async def press() -> bool:
        with full_screen() as screen:
            os.write(keyboard, keys)
            screen.take_keys()
            return screen.ended.is_set()

    assert asyncio.run(press()) == ends


def test_a_terminal_that_is_gone_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = pty.openpty()

    async def hang_up() -> bool:
        screen = Screen(Live())
        os.close(keyboard)
        screen.take_keys()
        return screen.ended.is_set()

    with open(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert asyncio.run(hang_up())
