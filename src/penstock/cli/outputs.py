"""Standard output and standard error, which a command may be started without."""

import os
import sys
from typing import TextIO


def open_missing_outputs() -> None:
    """Then what is printed goes nowhere."""
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
