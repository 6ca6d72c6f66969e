"""The terminal while `penstock top` or a `--watch` has it: an alternate screen, keys, new sizes.

`full_screen` gives the terminal back as it was, whatever ends the work.
"""

import asyncio
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live

Drawing = Callable[[int, int], RenderableType]  # of a width and a height

KEYS_READ_MAX = 64
ENDING_KEYS = b"qQ"
END_OF_INPUT = b"\x04"  # Ctrl-D
CONTROL_CHARACTERS = 6  # their place among the attributes of a terminal


class Screen:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.ended = asyncio.Event()
        self._drawing: Drawing | None = None

    def show(self, drawing: Drawing) -> None:
        """From now on, also when the terminal gets another size."""
        self._drawing = drawing
        self.draw()

    def draw(self) -> None:
        if self._drawing is None:
            return
        width, height = self.live.console.size
        self.live.update(self._drawing(width, height), refresh=True)

    def take_keys(self) -> None:
        fd = sys.stdin.fileno()
        pressed = os.read(fd, KEYS_READ_MAX)
        if not pressed and not select.select([fd], [], [], 0)[0]:
            return  # Ctrl-C has dropped what was there: the terminal has not ended
        if not pressed or any(key in ENDING_KEYS + END_OF_INPUT for key in pressed):
            asyncio.get_running_loop().remove_reader(fd)
            self.ended.set()


@contextmanager
def full_screen() -> Iterator[Screen]:
    """Must be entered where the loop runs."""
    loop = asyncio.get_running_loop()
    live = Live(console=Console(), screen=True, auto_refresh=False, transient=True)
    screen = Screen(live)
    loop.add_signal_handler(signal.SIGWINCH, screen.draw)
    loop.add_signal_handler(signal.SIGTERM, screen.ended.set)
    try:
        with _keys_at_once(screen), live:
            yield screen
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        loop.remove_signal_handler(signal.SIGTERM)


@contextmanager
def _keys_at_once(screen: Screen) -> Iterator[None]:
    """Keys come when they are pressed, and are not shown. Ctrl-C stays a signal.

    A read that finds none returns at once: Ctrl-C makes the terminal drop the keys that were not
    read yet, and the loop would wait for the next one with all that it has to do.
    """
    if not sys.stdin.isatty():
        yield
        return
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    at_once = termios.tcgetattr(fd)
    at_once[CONTROL_CHARACTERS][termios.VMIN] = 0
    termios.tcsetattr(fd, termios.TCSANOW, at_once)
    loop.add_reader(fd, screen.take_keys)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
