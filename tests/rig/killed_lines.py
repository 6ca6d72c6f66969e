"""A function run in a process of its own, which is killed as it comes to its n-th line.

The lines counted are those of the files named, each when it is come to first. Processes are forked
from one that has loaded the function and done nothing else, so that a hundred of them cost seconds.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pkgutil import resolve_name
from types import FrameType, ModuleType, TracebackType
from typing import Any, Self

LINES_MAX = 1_000


class Killer:
    """Runs one function again and again, with arguments that JSON can hold."""

    def __init__(self, function: Callable[..., object], *modules: ModuleType) -> None:
        named = f"{function.__module__}:{function.__qualname__}"
        files = [str(module.__file__) for module in modules]
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from rig.killed_lines import serve; serve()", named, *files],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.kill()

    def lines(self, first: int = 1, *, step: int = 1) -> Iterator[int]:
        """These, for as long as the caller does not break off."""
        yield from itertools.takewhile(lambda line: line <= LINES_MAX, itertools.count(first, step))
        raise AssertionError(f"it did not come to an end within {LINES_MAX} lines")

    def survives(self, line: int, *arguments: object) -> bool:
        """Runs the function; False: it was killed at that line; True: it had fewer lines."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([line, arguments]), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), status
        return status == 0


def serve() -> None:
    """The process that is forked from: a line in, a child's exit status out."""
    named, *files = sys.argv[1:]
    function = resolve_name(named)
    for asked in sys.stdin:
        line, arguments = json.loads(asked)
        child = os.fork()
        if child == 0:
            _run(tuple(files), line, function, arguments)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(
    files: tuple[str, ...], line: int, function: Callable[..., object], arguments: list[object]
) -> None:
    seen: set[tuple[str, int]] = set()

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return traced

    sys.settrace(traced)
    function(*arguments)
    sys.settrace(None)
