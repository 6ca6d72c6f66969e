"""As much of OpenTelemetry's protobuf as clients push: gauges and sums (ADR 45).

    MetricsData      1 ResourceMetrics *
    ResourceMetrics  1 Resource   2 ScopeMetrics *
    Resource         1 KeyValue *
    ScopeMetrics     2 Metric *
    Metric           1 name   5 Gauge   7 Sum
    Gauge            1 NumberDataPoint *
    Sum              1 NumberDataPoint *   2 temporality (1 delta, 2 cumulative)   3 is monotonic
    NumberDataPoint  4 double   6 sfixed64   7 KeyValue *
    KeyValue         1 key   2 AnyValue
    AnyValue         1 string   2 bool   3 int64   4 double

A field is a varint of its number and wire type (0 varint, 1 eight bytes, 2 a length and so many
bytes, 5 four bytes), and its value. All other fields are passed over, histograms among them.
Nothing nests deeper than this, so there is no recursion. Whoever decodes does so in steps: each
field is one, whatever a client sends.
"""

import struct
from collections.abc import Generator, Iterator
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from penstock.model.error import PenstockError
from penstock.model.limit import TELEMETRY_ATTRIBUTES_MAX

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
DELTA = 1
DOUBLE, SIGNED = struct.Struct("<d"), struct.Struct("<q")
Result = TypeVar("Result")
Steps = Generator[None, None, Result]
Attributes = dict[str, str]
NO_ATTRIBUTES: Attributes = {}


class MalformedTelemetry(PenstockError):
    """Bytes that are no MetricsData."""


class Meaning(Enum):
    """What a value is."""

    GAUGE = auto()
    TOTAL = auto()  # since the client began
    INCREASE = auto()  # since the client's last push


class Point(NamedTuple):
    name: str
    meaning: Meaning
    attributes: Attributes  # its own, which take the place of shared ones
    value: float
    shared: Attributes = NO_ATTRIBUTES  # of its resource: one object for all points of it


class Read(NamedTuple):
    points: list[Point]
    left_out: int  # beyond the bound


def read_points(data: bytes, *, points_max: int) -> Steps[Read]:
    """MalformedTelemetry when the bytes are none."""
    read = Read([], 0)
    for number, wire, start, end in _fields(data, 0, len(data)):
        yield
        if (number, wire) == (1, LENGTH):
            read = yield from _resource_metrics(data, start, end, read, points_max)
    return read


def _resource_metrics(
    data: bytes, start: int, end: int, read: Read, points_max: int
) -> Steps[Read]:
    shared: Attributes = {}
    scopes = []
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) == (1, LENGTH):
            shared = yield from _attributes(data, first, last, field=1)
        elif (number, wire) == (2, LENGTH):
            scopes.append((first, last))
    for scope_start, scope_end in scopes:
        for number, wire, first, last in _fields(data, scope_start, scope_end):
            yield
            if (number, wire) == (2, LENGTH):
                read = yield from _metric(data, first, last, shared, read, points_max)
    return read


def _metric(
    data: bytes, start: int, end: int, shared: Attributes, read: Read, points_max: int
) -> Steps[Read]:
    name = ""
    body = None
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) == (1, LENGTH):
            name = _text(data, first, last)
        elif number in (5, 7) and wire == LENGTH:
            body = (number == 7, first, last)
    if body is None:
        return read
    is_sum, first, last = body
    points, meaning = yield from _points(data, first, last, is_sum=is_sum)
    for index, (first, last) in enumerate(points):
        yield
        if len(read.points) >= points_max:
            return Read(read.points, read.left_out + len(points) - index)
        value, own = yield from _point(data, first, last)
        if value is not None:
            read.points.append(Point(name, meaning, own, value, shared))
    return read


def _points(
    data: bytes, start: int, end: int, *, is_sum: bool
) -> Steps[tuple[list[tuple[int, int]], Meaning]]:
    points = []
    temporality = monotonic = 0
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) == (1, LENGTH):
            points.append((first, last))
        elif (number, wire) == (2, VARINT):
            temporality = _varint(data, first, last)[0]
        elif (number, wire) == (3, VARINT):
            monotonic = _varint(data, first, last)[0]
    if not is_sum or not monotonic:
        return points, Meaning.GAUGE
    return points, Meaning.INCREASE if temporality == DELTA else Meaning.TOTAL


def _point(data: bytes, start: int, end: int) -> Steps[tuple[float | None, Attributes]]:
    value: float | None = None
    for number, wire, first, _ in _fields(data, start, end):
        yield
        if (number, wire) == (4, FIXED64):
            value = DOUBLE.unpack_from(data, first)[0]
        elif (number, wire) == (6, FIXED64):
            value = float(SIGNED.unpack_from(data, first)[0])
    attributes = yield from _attributes(data, start, end, field=7)
    return value, attributes


def _attributes(data: bytes, start: int, end: int, *, field: int) -> Steps[Attributes]:
    found: Attributes = {}
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) != (field, LENGTH):
            continue
        if len(found) >= TELEMETRY_ATTRIBUTES_MAX:
            raise MalformedTelemetry(f"a value has more than {TELEMETRY_ATTRIBUTES_MAX} attributes")
        key, value = yield from _key_value(data, first, last)
        if value is not None:
            found[key] = value
    return found


def _key_value(data: bytes, start: int, end: int) -> Steps[tuple[str, str | None]]:
    """The value is None when it is none that fits a label: an array, a map, bytes."""
    key, value = "", None
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) == (1, LENGTH):
            key = _text(data, first, last)
        elif (number, wire) == (2, LENGTH):
            value = yield from _any_value(data, first, last)
    return key, value


def _any_value(data: bytes, start: int, end: int) -> Steps[str | None]:
    value: str | None = None
    for number, wire, first, last in _fields(data, start, end):
        yield
        if (number, wire) == (1, LENGTH):
            value = _text(data, first, last)
        elif (number, wire) == (2, VARINT):
            value = "true" if _varint(data, first, last)[0] else "false"
        elif (number, wire) == (3, VARINT):
            unsigned = _varint(data, first, last)[0]
            value = str(unsigned - 2**64 if unsigned >= 2**63 else unsigned)
        elif (number, wire) == (4, FIXED64):
            value = str(DOUBLE.unpack_from(data, first)[0])
    return value


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, and from where to where the value lies."""
    position = start
    while position < end:
        tag, position = _varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise MalformedTelemetry("a field has number 0")
        if wire == VARINT:
            _, stop = _varint(data, position, end)
        elif wire == LENGTH:
            length, position = _varint(data, position, end)
            stop = position + length
        elif wire in (FIXED64, FIXED32):
            stop = position + (8 if wire == FIXED64 else 4)
        else:
            raise MalformedTelemetry(f"wire type {wire} is not used")
        if stop > end:
            raise MalformedTelemetry("a field ends beyond its message")
        yield number, wire, position, stop
        position = stop


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The value, modulo 2 to the 64, and what follows it."""
    value = 0
    for index in range(VARINT_BYTES_MAX):
        if position + index >= end:
            raise MalformedTelemetry("a number is cut off")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + index + 1
    raise MalformedTelemetry("a number is too long")


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedTelemetry("a text is not UTF-8") from error
