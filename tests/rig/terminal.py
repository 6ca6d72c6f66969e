"""`penstock ...` on a terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

COLORS = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    arguments: Sequence[str],
    *,
    columns: int,
    bootstrap: str | None = None,
    status: int = 0,
    with_errors: bool = True,
) -> list[str]:
    """The lines that the terminal is sent, without their colours. The command must end with that
    status. Without errors, standard error, where progress is shown, goes elsewhere.
    """
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["TERM"] = "xterm"
    if bootstrap is not None:
        environment["PENSTOCK_BOOTSTRAP"] = bootstrap
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal if with_errors else subprocess.DEVNULL,
        env=environment,
    )
    os.close(terminal)
    printed = b""
    try:
        while piece := os.read(ours, 65_536):
            printed += piece
    except OSError:
        pass  # Linux says so when the last one has closed the other end
    os.close(ours)
    assert process.wait(120) == status, printed
    return COLORS.sub("", printed.decode()).replace("\r", "").split("\n")
