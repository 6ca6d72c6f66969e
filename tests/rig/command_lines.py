"""Whether `penstock` would take a command line, without running it."""

import shlex
from collections.abc import Sequence

import click

from penstock.cli.main import penstock


def accepted(arguments: Sequence[str]) -> dict[str, object]:
    """The options of the command, by its own parser; click.ClickException if it refuses them."""
    command: click.Command = penstock
    context = click.Context(command, info_name="penstock")
    rest = list(arguments)
    while isinstance(command, click.Group):
        context = command.make_context(context.info_name, rest, parent=context.parent)
        name, found, rest = command.resolve_command(
            context, [*context.protected_args, *context.args]
        )
        assert found is not None, name
        command = found
    return command.make_context(command.name, rest, parent=context).params


def words(line: str) -> list[str]:
    """What follows the name of the program."""
    program, *rest = shlex.split(line)
    assert program.rpartition("/")[2] == "penstock", line
    return rest
