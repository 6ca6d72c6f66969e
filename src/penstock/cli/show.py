"""What commands print: a table for people, or JSON for programs."""

import json
import sys
from collections.abc import Collection, Iterable, Sequence

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.escape import escaped, escaped_json
from penstock.cli.table_widths import ColumnNeed, fitted

BETWEEN = 3  # characters between two columns of a table
AROUND = 2


class OutputConsole(Console):
    """Standard output or error; that nobody reads it any more is for `main` to notice."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the process with status 1


def say(line: str, *, err: bool = False) -> None:
    """Prints one line, in which names from outside may stand."""
    click.echo(escaped(line), err=err)


def print_json(value: object, *, in_line: bool = False) -> None:
    """Over several lines, or in one, which a reader gets at once: others may follow."""
    indent = None if in_line else 2
    print(escaped_json(json.dumps(value, indent=indent, ensure_ascii=False)), flush=in_line)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    wrapped: Collection[str] = (),
) -> None:
    """Numbers to the right, None as a dash.

    On a terminal it is made to fit: the widest texts are cut, with an ellipsis, or broken into
    lines in the columns that `wrapped` names. Where nothing readable would be left, each row is
    written as a list. Into a pipe or a file everything is written in full.
    """
    data = list(rows)
    cells = [[Text("-" if one is None else escaped(str(one))) for one in row] for row in data]
    numeric = [
        all(isinstance(row[index], int | None) for row in data)
        and any(row[index] is not None for row in data)
        for index in range(len(columns))
    ]
    needs = [
        ColumnNeed(
            width=max(cell_len(name), *(row[index].cell_len for row in cells), 0),
            may_shrink=not numeric[index],
        )
        for index, name in enumerate(columns)
    ]
    frame = BETWEEN * (len(columns) - 1) + AROUND
    console = OutputConsole() if sys.stdout.isatty() else None
    full = sum(need.width for need in needs) + frame
    available = full if console is None else console.width
    widths = fitted(needs, available - frame)
    console = console or OutputConsole(width=full)
    if title is not None:
        # Not by the table itself, which would take it for markup and break it to its own width.
        console.print(Text(escaped(title), style="table.title"), soft_wrap=True)
    if widths is None:
        _print_lists(columns, cells)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(
            name,
            justify="right" if numeric[index] else "left",
            width=widths[index],
            overflow="fold" if name in wrapped else "ellipsis",
            no_wrap=name not in wrapped,
        )
    for row in cells:
        table.add_row(*row)
    console.print(table, markup=False)


def _print_lists(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """A line for each cell; the terminal itself breaks those that are longer than it is wide."""
    wide = max(map(cell_len, columns))
    for row in rows:
        click.echo()
        for name, cell in zip(columns, row, strict=True):
            click.echo(f"{name}{' ' * (wide - cell_len(name))}  {cell.plain}")
    click.echo()


def listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
