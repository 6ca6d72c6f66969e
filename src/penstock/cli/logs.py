"""Log lines of a node, on standard error: one event a line, for people or for programs.

    text    time=... level=... node=... at=... event=..., then what the event says, key=value
    json    one object a line: time, level, node, logger, event, message, and the fields by name

Events are those of `model/events`. A line without a name is a note; its fields are what its text
says with `key=%s`. Both forms escape what could be a command to a terminal or forge a line.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from enum import Enum

from penstock.cli.escape import escaped, escaped_json
from penstock.world.event_limit import EventLimit
from penstock.world.event_log import Told, Value, for_programs

NOTE = "note"  # the event of a line that has no name
LEFT_OUT = "left_out"
# What every line has: a field of the same name would hide it.
KEYS = ("time", "level", "node", "logger", "event", "message", "exception")
_PLACE = re.compile(r"(?:(\w+)=)?%(?:\.\d+)?([sdrf%])")


class LogFormat(Enum):
    TEXT = "text"
    JSON = "json"


class KeyValueFormatter(logging.Formatter):
    """`time=... level=... at=...`, then what the event says of itself."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node = "" if node_id is None else f" node={node_id}"

    def format(self, record: logging.LogRecord) -> str:
        told = record.msg
        name = f" event={told.event.name}" if isinstance(told, Told) else ""
        line = (
            f"time={_time(record)} level={record.levelname.lower()}{self._node}"
            f" at={record.name}{name} {escaped(record.getMessage())}"
        )
        left_out = _left_out(record)
        if left_out:
            line += f" {LEFT_OUT}={left_out}"
        if record.exc_info:
            trace = self.formatException(record.exc_info).split("\n")
            # Set in, so that no text of an error passes for a line of its own.
            line += "".join(f"\n\t{escaped(one)}" for one in trace)
        return line


class JsonFormatter(logging.Formatter):
    """One object, in one line."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        told = record.msg if isinstance(record.msg, Told) else None
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "node": self._node_id,
            "logger": record.name,
            "event": NOTE if told is None else told.event.name,
            "message": record.getMessage() if told is None else told.event.says,
        }
        fields = fields_of_note(record) if told is None else told.fields
        for name, value in fields.items():
            line[f"{name}_" if name in KEYS else name] = for_programs(value)
        left_out = _left_out(record)
        if left_out:
            line[LEFT_OUT] = left_out
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(line, default=str))


class Limited(logging.Filter):
    """Leaves out what is too much, and tells in the next line how much that was. Errors with a
    traceback are never left out.
    """

    def __init__(self, limit: EventLimit | None = None) -> None:
        super().__init__()
        self._limit = EventLimit() if limit is None else limit

    def filter(self, record: logging.LogRecord) -> bool:
        told = record.msg
        if record.exc_info:
            return True
        if isinstance(told, Told):
            if not told.event.is_limited:
                return True
            event, subject = told.event.name, told.subject
        else:
            event, subject = f"{record.name} {record.msg}", str(record.args)
        left_out = self._limit.left_out(event, subject, now_ms=time.monotonic_ns() // 1_000_000)
        if left_out is None:
            return False
        setattr(record, LEFT_OUT, left_out)
        return True


def fields_of_note(record: logging.LogRecord) -> Mapping[str, Value]:
    """What a text says as `key=%s`, by its keys."""
    given = record.args
    if not isinstance(record.msg, str) or not isinstance(given, tuple):
        return {}
    places = [place for place in _PLACE.finditer(record.msg) if place[2] != "%"]
    if len(places) != len(given):
        return {}
    named = ((place[1], value) for place, value in zip(places, given, strict=True))
    return {key: _plain(value) for key, value in named if key}


def log_to_stderr(
    level: int = logging.INFO,
    *,
    log_format: LogFormat = LogFormat.TEXT,
    node_id: int | None = None,
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(JsonFormatter(node_id) if is_json else KeyValueFormatter(node_id))
    handler.addFilter(Limited())
    logging.basicConfig(level=level, handlers=[handler])


def _time(record: logging.LogRecord) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{at}.{int(record.msecs):03d}Z"


def _left_out(record: logging.LogRecord) -> int:
    count: int = getattr(record, LEFT_OUT, 0)
    return count


def _plain(value: object) -> Value:
    return value if value is None or isinstance(value, str | int | float) else str(value)
