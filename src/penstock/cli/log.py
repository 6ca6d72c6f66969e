"""`penstock log`: the files of a log, for people."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.log_dump import Dump, dump_file
from penstock.cli.options import json_option
from penstock.cli.show import print_json, print_table, say
from penstock.model.error import PenstockError
from penstock.world.disk import RealDisk

ROWS_AT_ONCE = 1_000


class DamagedFile(PenstockError):
    """A file was read, and something in it is wrong."""


@click.group(cls=CommandGroup)
def log() -> None:
    """Read the files of a log."""


@log.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--records", is_flag=True, help="Each record of a segment, not only its batches.")
@json_option
def dump(file: Path, records: bool, as_json: bool) -> None:
    """Show what FILE holds: a segment, an index, a snapshot or a checkpoint.

    Checksums are verified. The exit status is not 0 when something is wrong in the file.
    """
    found = dump_file(RealDisk(), str(file), records=records)
    if as_json:
        print_json(
            {
                "file": str(file),
                "kind": found.kind,
                "rows": [dict(zip(found.columns, row, strict=True)) for row in found.rows],
                "error": found.error,
            }
        )
    else:
        _print(file, found)
    if found.error is not None:
        raise DamagedFile(f"{file}: {found.error}")


def _print(file: Path, found: Dump) -> None:
    say(f"{file}: {found.kind}")
    for rows in _pieces(found.rows):
        print_table(found.columns, rows)


def _pieces(rows: Iterator[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    """A table knows its widths only when it has all its rows: so one for each piece of a large
    file.
    """
    piece = list(islice(rows, ROWS_AT_ONCE))
    while piece:
        yield piece
        piece = list(islice(rows, ROWS_AT_ONCE))
