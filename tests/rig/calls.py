"""How often a function is called while something is done: work counted instead of timed."""

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import cast


def count_all_calls(work: Callable[[], object]) -> int:
    """Of functions in Python and in C, whatever they are."""
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def count_calls(function: Callable[..., object], work: Callable[[], object]) -> int:
    code = cast(FunctionType, function).__code__
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is code

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls
