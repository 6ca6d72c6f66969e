"""`penstock ...` with a terminal of its own: what it shows now, keys, sizes, and Ctrl-C."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rig.cluster_questions import until

HOME = b"\x1b[H"  # before each new picture
CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# The terminal becomes that of the process, so that Ctrl-C and new sizes are signals to it. SIGINT
# may be ignored here, as in the background of a shell, and would be there too.
START = (
    "import fcntl, os, signal, sys, termios; os.setsid();"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.executable, [sys.executable, '-m', 'penstock.cli.main', *sys.argv[1:]])"
)


class LiveTerminal:
    def __init__(self, arguments: Sequence[str], *, columns: int = 100, lines: int = 50) -> None:
        self.received = b""
        self._ours, self._terminal = pty.openpty()
        self.before = termios.tcgetattr(self._terminal)
        self.resize(columns=columns, lines=lines)
        hidden = ("COLUMNS", "LINES")
        environment = {name: text for name, text in os.environ.items() if name not in hidden}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *arguments],
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            env={**environment, "TERM": "xterm"},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
        os.close(self._terminal)
        self._reader.join(60)
        os.close(self._ours)

    @property
    def picture(self) -> list[str]:
        """The lines of the last picture that is whole."""
        whole = self.received.split(HOME)[-2:-1]
        text = CONTROLS.sub(b"", b"".join(whole)).decode()
        return [line.rstrip() for line in text.replace("\r", "").split("\n")]

    def until(self, what: str, holds: Callable[[list[str]], bool]) -> list[str]:
        """Waits for a picture like this; it."""
        seen: list[str] = []

        def is_so() -> bool:
            nonlocal seen
            assert self.process.poll() is None, self.received
            seen = self.picture
            return holds(seen)

        until(what, is_so)
        return seen

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, *, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def end(self) -> int:
        """Waits for the process. Its status, after the terminal is found as it was before."""
        status = self.process.wait(120)
        assert termios.tcgetattr(self._terminal) == self.before
        os.write(self._terminal, b"<end>")
        until("all of it is read", lambda: b"<end>" in self.received)
        modes = re.findall(rb"\x1b\[\?(1049|25)([hl])", self.received)
        assert dict(modes) == {b"1049": b"l", b"25": b"h"}, modes
        return status

    def _read(self) -> None:
        try:
            while piece := os.read(self._ours, 65_536):
                self.received += piece
        except OSError:
            pass  # Linux says so when the last one has closed the other end
