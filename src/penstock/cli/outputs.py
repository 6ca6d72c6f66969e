"""Standard output and standard error: a command may be started without them, and whoever reads them
may go away.
"""

import os
import sys
from typing import TextIO


def open_missing_outputs() -> None:
    """Then what is printed goes nowhere."""
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()


def discard_unwritable() -> None:
    """What an output does not take is not tried again at the end of the process, which would change
    the exit status.
    """
    for output in (sys.stdout, sys.stderr):
        try:
            output.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
