"""The error codes in a response, its own and those of its parts, found by its declaration."""

from functools import cache

from penstock.wire.definition import Kind, Struct
from penstock.wire.messages.fetch import FetchResponse

ERROR_CODE = "error_code"
NOWHERE = (False, ())


def error_codes(response: Struct) -> list[int]:
    """All that are not 0."""
    found: list[int] = []
    if isinstance(response, FetchResponse):
        _look_at_fetched(response, found)
    else:
        _look(response, found)
    return found


def _look_at_fetched(response: FetchResponse, found: list[int]) -> None:
    """As below, with no declaration asked: no other response is looked at as often."""
    if response.error_code:
        found.append(int(response.error_code))
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.error_code:
                found.append(int(partition.error_code))


def _look(value: Struct, found: list[int]) -> None:
    has_code, fields = _places(type(value))
    if has_code:
        code = getattr(value, ERROR_CODE)
        if code:
            found.append(int(code))
    for name in fields:
        inner = getattr(value, name)
        if isinstance(inner, list):
            for one in inner:
                _look(one, found)
        elif inner is not None:
            _look(inner, found)


@cache
def _places(kind: type[Struct]) -> tuple[bool, tuple[str, ...]]:
    """Whether a struct has a code of its own, and which of its fields hold structs with codes."""
    has_code = False
    fields: list[str] = []
    for field in kind.FIELDS:
        if field.name == ERROR_CODE:
            has_code = True
            continue
        inner = field.element if field.kind is Kind.ARRAY else field
        if inner is not None and inner.struct is not None and _places(inner.struct) != NOWHERE:
            fields.append(field.name)
    return has_code, tuple(fields)
