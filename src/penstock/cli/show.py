"""What commands print: a table for people, or JSON for programs."""

import json
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

WIDE_COLUMNS = 200


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


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
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=WIDE_COLUMNS)
    console.print(table, markup=False)


def listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
