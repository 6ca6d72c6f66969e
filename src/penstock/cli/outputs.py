"""Standard output and standard error: a command may be started without them, and whoever reads them
may go away.
"""

import os
import sys
from typing import TextIO


def open_missing_outputs() -> None:
    """Then what is printed goes nowhere, and no file that is opened later has the number of one."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free: this one
    if sys.stdout is None:
        sys.stdout = _output(1)
    if sys.stderr is None:
        sys.stderr = _output(2)


def discard_unwritable() -> None:
    """What an output does not take is not tried again at the end of the process, which would change
    the exit status.
    """
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _output(number: int) -> TextIO:
    return os.fdopen(number, "w", encoding="utf-8", closefd=False)
