"""How an event of `model/events` gets into the log: one call, with its fields by name.

    tell(logger, BROKER_FENCED, broker=2, broker_epoch=17, reason="session_expired")

When nobody wants its level, the call costs one comparison. Text is made when a line is written, in
one form for people (`str` of the message) and one for programs (`cli/logs`), from the same fields.
"""

import json
import logging
from collections.abc import Mapping, Sequence

from penstock.model.events import Event

Value = str | int | float | bool | None | BaseException | Sequence[int] | Sequence[str]
NONE = "none"


class Told:
    """An event with its fields: the message of a log record."""

    __slots__ = ("event", "fields")

    def __init__(self, event: Event, fields: Mapping[str, Value]) -> None:
        self.event = event
        self.fields = fields

    @property
    def subject(self) -> str:
        name = self.event.subject
        return "" if name is None else str(self.fields.get(name))

    def __str__(self) -> str:
        said = " ".join(f"{name}={shown(value)}" for name, value in self.fields.items())
        return f"{self.event.says} {said}" if said else self.event.says


def tell(
    logger: logging.Logger, event: Event, *, failure: BaseException | None = None, **fields: Value
) -> None:
    """Logs the event; with `failure`, also where that happened."""
    if logger.isEnabledFor(event.level):
        logger.log(event.level, Told(event, fields), exc_info=failure)


def shown(value: Value) -> str:
    """A value in a line for people: quoted where it would not be one word."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str | BaseException):
        text = str(value)
        if text and text.isprintable() and not any(one in text for one in ' "=\\'):
            return text
        return json.dumps(text)
    return shown(",".join(map(str, value))) if value else NONE


def for_programs(value: Value) -> object:
    """A value in a line for programs."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, BaseException):
        return str(value)
    return list(value)
