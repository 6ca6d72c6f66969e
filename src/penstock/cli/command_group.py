"""A group of commands that suggests the one that was meant, shows whole summaries, and refuses text
that is not UTF-8.
"""

from collections.abc import Iterator
from difflib import get_close_matches

import click

from penstock.cli.typed_text import take_utf8


class CommandGroup(click.Group):
    """What every noun with several commands is."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_option = name.startswith("-")
        if self.get_command(ctx, name) is None and not is_option and not ctx.resilient_parsing:
            meant = list(_meant(self, ctx, args))
            advice = (
                f"did you mean `{' '.join((ctx.command_path, *meant))}`?"
                if meant
                else f"see `{ctx.command_path} --help`"
            )
            raise click.UsageError(f"there is no command {name!r}: {advice}", ctx)
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            take_utf8(command)  # here since every command is found by its group
        return found, command, rest

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The commands in order, and the first sentence of what each says of itself."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [
            (name, command.get_short_help_str(limit=1_000))
            for name, command in found
            if command is not None and not command.hidden
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))


def _meant(group: click.Group, ctx: click.Context, words: list[str]) -> Iterator[str]:
    """The commands most like the words, from this group down; nothing where none is like it."""
    matches = get_close_matches(words[0], group.list_commands(ctx), n=1)
    if not matches:
        return
    yield matches[0]
    command = group.get_command(ctx, matches[0])
    if isinstance(command, click.Group) and len(words) > 1:
        yield from _meant(command, ctx, words[1:])
