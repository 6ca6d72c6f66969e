"""What `penstock doctor` prints: a table of checks, and below it what mends those not passed."""

import sys
from collections.abc import Iterator, Sequence

import click
from rich.cells import cell_len
from rich.console import Console

from penstock.cli.escape import escaped
from penstock.cli.show import print_table, say
from penstock.doctor.finding import Advice, Command, Finding, Mend, Status, counted, worst

MENDS_MAX = 5  # of one check, in the table
INDENT = "  "


def report_value(findings: Sequence[Finding], options: Sequence[str]) -> dict[str, object]:
    return {
        "status": worst(findings).value,
        "counts": {
            status.value: sum(one.status is status for one in findings) for status in Status
        },
        "checks": [
            {
                "check": one.check,
                "status": one.status.value,
                "reason": one.reason,
                "faults": [
                    {
                        "status": fault.status.value,
                        "reason": fault.reason,
                        "command": _line(fault.mend, options)
                        if isinstance(fault.mend, Command)
                        else None,
                        "advice": fault.mend.line(options)
                        if isinstance(fault.mend, Advice)
                        else None,
                    }
                    for fault in one.faults
                ],
            }
            for one in findings
        ],
    }


def show_report(findings: Sequence[Finding], options: Sequence[str]) -> None:
    print_table(
        ("check", "status", "reason"),
        ((one.check, one.status.value, one.reason) for one in findings),
        wrapped=("reason",),
    )
    for one in findings:
        if one.mends:
            say(f"{one.check}:")
            for mend in one.mends[:MENDS_MAX]:
                for line in _lines(mend, options):
                    click.echo(line)
            if len(one.mends) > MENDS_MAX:
                more = counted(len(one.mends) - MENDS_MAX, "other")
                say(f"{INDENT}and {more}: --json tells all")
    say(
        ", ".join(
            f"{sum(one.status is status for one in findings)} {status.value}" for status in Status
        )
    )


def _lines(mend: Mend, options: Sequence[str]) -> Iterator[str]:
    """Into a pipe in one line. On a terminal broken between words, a command so that it can still
    be copied into a shell.
    """
    if isinstance(mend, Command):
        words, end = mend.words(options), " \\"
    else:
        words, end = escaped(mend.line(options)).split(" "), ""
    if not sys.stdout.isatty():
        yield INDENT + " ".join(words)
        return
    width = Console().width
    line = INDENT + words[0]
    for word in words[1:]:
        if cell_len(line) + 1 + cell_len(word) + len(end) > width:
            yield line + end
            line = INDENT * 2 + word
        else:
            line += f" {word}"
    yield line


def _line(command: Command, options: Sequence[str]) -> str:
    return " ".join(command.words(options))
