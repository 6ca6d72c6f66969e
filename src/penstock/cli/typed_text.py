"""What may be typed: text is UTF-8, unless an option says that it may be any bytes.

Python keeps the bytes of an argument that are not UTF-8 as surrogates. Paths and separators are
turned into the same bytes again; names cannot be, since the protocol has no place for them.
"""

from typing import Any

import click
from click.types import StringParamType

from penstock.cli.escape import escaped_bytes


class AnyBytes(StringParamType):
    """For options that hold a path, or bytes of records."""


class Utf8(StringParamType):
    """For all others."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            # Options may hold passwords, which are not shown.
            is_name = isinstance(param, click.Argument)
            what = f"'{escaped_bytes(typed_bytes(text))}'" if is_name else "it"
            self.fail(f"{what} is not UTF-8", param, ctx)
        return text


ANY_BYTES = AnyBytes()
UTF8 = Utf8()


def take_utf8(command: click.Command) -> None:
    """Makes all text of a command UTF-8, but for what is declared as ANY_BYTES."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = UTF8


def typed_bytes(text: str) -> bytes:
    """The bytes of an argument as they were typed, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")
