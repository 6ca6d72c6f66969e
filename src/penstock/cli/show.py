"""What commands print: a table for people, or JSON for programs."""

import json
import sys
from collections.abc import Iterable, Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.escape import escaped, escaped_json

WIDE_COLUMNS = 200


def say(line: str, *, err: bool = False) -> None:
    """Prints one line, in which names from outside may stand."""
    click.echo(escaped(line), err=err)


def print_json(value: object) -> None:
    print(escaped_json(json.dumps(value, indent=2, ensure_ascii=False)))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """Numbers to the right, None as a dash. Into a pipe it is written wide, so that nothing
    wraps.
    """
    data = list(rows)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(data) and all(isinstance(row[index], int | None) for row in data)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in data:
        # As text: a string would be searched for markup.
        table.add_row(*(Text("-" if cell is None else escaped(str(cell))) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=WIDE_COLUMNS)
    console.print(table, markup=False)


def listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
