"""The error codes in a response, its own and those of its parts, found by its declaration."""

from functools import cache

from penstock.wire.definition import Kind, Struct

ERROR_CODE = "error_code"
NOWHERE = (False, ())


def error_codes(response: Struct) -> list[int]:
    """All that are not 0."""
    found: list[int] = []
    _look(response, found)
    return found


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
