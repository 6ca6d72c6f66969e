"""Whether `penstock` would take a command line, without running it."""

import shlex
from collections.abc import Sequence

import click

from penstock.cli.main import penstock


def found(arguments: Sequence[str]) -> tuple[click.Command, list[str]]:
    """The command that is named, and its own arguments."""
    command: click.Command = penstock
    rest = list(arguments)
    while isinstance(command, click.Group):
        name = rest.pop(0)
        within = command.get_command(click.Context(command), name)
        if within is None:
            raise click.UsageError(f"there is no command {name!r}")
        command = within
    return command, rest


def accepted(arguments: Sequence[str]) -> dict[str, object]:
    """The options of the command, by its own parser; click.ClickException if it refuses them."""
    command, rest = found(arguments)
    return command.make_context(command.name, rest).params


def words(line: str) -> list[str]:
    """What follows the name of the program."""
    program, *rest = shlex.split(line)
    assert program.rpartition("/")[2] == "penstock", line
    return rest
