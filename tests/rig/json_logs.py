"""The log files of nodes as JSON: what a person would look up in them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rig.failover.cluster import PenstockSoftware

Line = dict[str, Any]


class PenstockWithJsonLogs(PenstockSoftware):
    """`level` is that of the logs."""

    def __init__(self, level: str = "info") -> None:
        self._level = level

    def command(self, properties: Path) -> list[str]:
        logs = ["--log-format", "json", "--log-level", self._level]
        return [*super().command(properties), *logs]


def lines_of(files: Iterable[Path]) -> list[Line]:
    """The lines of all files, in the order of their times. What a node prints, such as that it is
    ready, is no line of its log.
    """
    return sorted(_lines(files), key=lambda line: str(line["time"]))


def events(lines: Iterable[Line], name: str, **fields: object) -> list[Line]:
    """Lines of one event that have these fields."""
    return [
        line
        for line in lines
        if line["event"] == name and all(line.get(key) == value for key, value in fields.items())
    ]


def _lines(files: Iterable[Path]) -> Iterator[Line]:
    for file in files:
        for text in file.read_text("utf-8").splitlines():
            if text.startswith("{"):
                yield json.loads(text)
