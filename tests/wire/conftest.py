"""Every declared message in every version, and messages full of arbitrary values."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from aiokafka.protocol import admin, coordination, fetch, metadata, offset, produce, transaction
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from kio.schema.index import schema_name_map as kio_paths
from kio.static.constants import EntityType

from penstock.model.error import ErrorCode
from penstock.wire import messages
from penstock.wire.api import ApiKey
from penstock.wire.definition import Field, Kind, Message, Struct
from penstock.wire.messages.list_offsets import ListOffsetsRequest

INTEGER_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
# What kio's own types can hold.
TIMES_MS = st.integers(0, 4_000_000_000_000)
MAYBE_TIMES_MS = st.just(-1) | TIMES_MS
MAYBE_TIMES = ("log_append_time_ms", "retention_time_ms", "max_lifetime_ms", "renew_period_ms")
TIMES = (
    "transaction_start_time_ms",
    "expiry_time_period_ms",
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
    "session_lifetime_ms",
)


def declared_messages() -> Iterator[type[Message]]:
    for module in pkgutil.walk_packages(messages.__path__, messages.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                yield value


def declared_versions() -> Iterator[tuple[type[Message], int]]:
    for message in declared_messages():
        for version in range(message.VERSIONS.min, message.VERSIONS.max + 1):
            yield message, version


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that takes `message` and `version` for every version of every message.

    One that also takes `kio` or `aiokafka` is given the class of that library, where it has one.
    """
    wanted = set(metafunc.fixturenames)
    if not {"message", "version"} <= wanted:
        return
    names, find = ("message", "version"), None
    for library, find_in_library in (("kio", kio_class), ("aiokafka", aiokafka_class)):
        if library in wanted:
            names, find = ("message", "version", library), find_in_library
    cases = []
    for message, version in declared_versions():
        values: tuple[object, ...] = (message, version)
        if find is not None:
            theirs = find(message, version)
            if theirs is None:
                continue
            values += (theirs,)
        cases.append(pytest.param(*values, id=f"{message.__name__}-{version}"))
    metafunc.parametrize(names, cases)


def kio_class(message: type[Message], version: int) -> type | None:
    name, kind = snake_case(message.__name__), EntityType.data
    for suffix, suffix_kind in (
        ("_request", EntityType.request),
        ("_response", EntityType.response),
    ):
        if name.endswith(suffix):
            name, kind = name.removesuffix(suffix), suffix_kind
    path = kio_paths.get(name, {}).get(version, {}).get(kind)
    return None if path is None else pkgutil.resolve_name(path)


def aiokafka_class(message: type[Message], version: int) -> type | None:
    if not message.__name__.endswith(("Request", "Response")):
        return None
    if message is ListOffsetsRequest and version > 3:
        return None  # declared there with a leader epoch of 64 bits, and never sent
    if message.API_KEY == ApiKey.DESCRIBE_ACLS and version > 1:
        return None  # declared there without compact lengths, and never sent
    is_request = message.__name__.endswith("Request")
    return aiokafka_classes().get((message.API_KEY, version, is_request))


@cache
def aiokafka_classes() -> dict[tuple[int, int, bool], type]:
    found = {}
    for module in (admin, coordination, fetch, metadata, offset, produce, transaction):
        for name, value in vars(module).items():
            if isinstance(value, type) and isinstance(getattr(value, "API_VERSION", None), int):
                found[value.API_KEY, value.API_VERSION, "Request" in name] = value
    return found


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@pytest.fixture(scope="session")
def filled() -> Callable[[type[Message], int], SearchStrategy[Message]]:
    """Messages of a class, with arbitrary values in the fields that a version has."""
    return filled_struct


@cache
def filled_struct(cls: type[Struct], version: int) -> SearchStrategy[Struct]:
    values = {f.name: filled_field(f, version) for f in cls.FIELDS if version in f.versions}
    return st.builds(cls, **values)


def filled_field(field: Field, version: int) -> SearchStrategy[object]:
    values = present_values(field, version)
    may_be_absent = field.tag is not None and field.default is None
    return st.none() | values if field.nullable_in(version) or may_be_absent else values


def present_values(field: Field, version: int) -> SearchStrategy[object]:
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.name in MAYBE_TIMES:
        return MAYBE_TIMES_MS
    if field.name in TIMES:
        return TIMES_MS
    match field.kind:
        case Kind.BOOL:
            return st.booleans()
        case Kind.UINT16:
            return st.integers(0, 2**16 - 1)
        case Kind.FLOAT64:
            return st.floats(allow_nan=False)
        case Kind.UUID:
            return st.binary(min_size=16, max_size=16)
        case Kind.STRING:
            return st.text(max_size=6) | st.just("long" * 50)
        case Kind.BYTES | Kind.RECORDS:
            return st.binary(max_size=6)
        case Kind.ARRAY:
            assert field.element is not None
            return st.lists(filled_field(field.element, version), max_size=2)
        case Kind.STRUCT:
            assert field.struct is not None
            return filled_struct(field.struct, version)
        case _:
            bits = INTEGER_BITS[field.kind]
            return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
