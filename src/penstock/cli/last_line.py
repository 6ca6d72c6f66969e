"""The line that says what went wrong, and that it is the last one.

Where Spark runs, Java writes to the same terminal, and both it and what is to be done at the end
of the program may write long after an error was met. `say_after(ended)` holds the line back until
then: until every other function that Python calls at its exit has been called, and `ended` too.
"""

import atexit
from collections.abc import Callable

import click

from penstock.cli.outputs import discard_unwritable

_held: list[str] | None = None  # None: lines are said at once


def say_error(line: str) -> None:
    if _held is None:
        _say(line)
    else:
        _held.append(line)


def say_after(ended: Callable[[], None]) -> None:
    """From now on `say_error` waits for `ended`, which runs at the exit. Python calls first what
    was registered last: so this is for before anything else is registered that may write.
    """
    global _held
    assert _held is None, "there is one end"
    held: list[str] = []
    _held = held

    def end() -> None:
        try:
            ended()
        finally:
            for line in held:
                _say(line)

    atexit.register(end)


def _say(line: str) -> None:
    """Where nobody can be told, there is still the exit status."""
    try:
        click.echo(line, err=True)
    except OSError:
        discard_unwritable()
