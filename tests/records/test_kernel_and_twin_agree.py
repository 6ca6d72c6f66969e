"""The compiled kernel and its twin: the same answers and the same errors, on any bytes."""

import pickle
import struct
from array import array
from collections.abc import Callable, Iterable
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.records.errors import CorruptBatch
from penstock.records.record import Record
from penstock.records.twin import keys as twin_keys
from penstock.records.twin import walk as twin_walk
from penstock.records.twin import write as twin_write
from penstock.records.twin import xxhash as twin_xxhash
from penstock.records.twin.write import encode_varint
from penstock.records.walked import BytesColumn

kernel_walk = pytest.importorskip(
    "penstock.records.kernel.walk", reason="needs the compiled record kernel"
)
kernel_write = pytest.importorskip("penstock.records.kernel.write")
kernel_keys = pytest.importorskip("penstock.records.kernel.keys")
kernel_xxhash = pytest.importorskip("penstock.records.kernel.xxhash")

INT64 = st.integers(-(2**63), 2**63 - 1)
field = st.none() | st.binary(max_size=80) | st.binary(min_size=60, max_size=70)
headers = st.lists(st.tuples(st.text(max_size=10), field), max_size=3).map(tuple)
record = st.builds(Record, field, field, headers, st.integers(-1, 2**41) | INT64)
records = st.lists(record, max_size=30)

# Numbers as they break readers: short and long, negative, padded, too large, without an end.
number = st.one_of(
    st.integers(-3, 70).map(encode_varint),
    INT64.map(encode_varint),
    st.integers(0, 11).map(lambda count: b"\x80" * count + b"\x00"),
    st.integers(0, 11).map(lambda count: b"\xff" * count + b"\x01"),
)
hostile_record = st.one_of(
    st.lists(number | st.binary(max_size=6), max_size=12).map(
        lambda parts: encode_varint(len(b"".join(parts))) + b"".join(parts)
    ),
    st.builds(
        lambda parts, size: encode_varint(size) + b"".join(parts),
        st.lists(number, max_size=12),
        st.integers(-2, 60),
    ),
)


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Sound records, records with damage, and bytes that never were records; and a count."""
    sound = draw(records)
    payload = bytearray(twin_write.encode_records(sound).payload)
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(payload)))
        match draw(st.sampled_from(("set", "cut", "insert", "record"))):
            case "set" if position < len(payload):
                payload[position] = draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
            case "cut":
                del payload[position : position + draw(st.integers(1, 4))]
            case "record":
                payload += draw(hostile_record)
            case _:
                payload[position:position] = draw(number)
    count = len(sound) + draw(st.sampled_from((0, 0, 0, 1, -1, 2**31 - 1)))
    return bytes(payload), count


def outcome(function: Callable[..., Any], *arguments: object) -> object:
    """What it gives, or the error that it raises, in a form to compare."""
    try:
        found = function(*arguments)
        if isinstance(found, Iterable) and not isinstance(found, bytes | bytearray | tuple):
            return one_by_one(iter(found))
        return found
    except (CorruptBatch, ValueError) as error:
        return type(error), str(error) if isinstance(error, CorruptBatch) else ""


def one_by_one(found: Any) -> list[object]:
    """Everything up to the end or an error, which is the last item then."""
    seen: list[object] = []
    try:
        for item in found:
            seen.append(item)
    except CorruptBatch as error:
        seen.append(str(error))
        assert next(found, None) is None
    return seen


def assert_same(name: str, kernel: ModuleType, twin: ModuleType, *arguments: object) -> object:
    by_kernel = outcome(getattr(kernel, name), *arguments)
    by_twin = outcome(getattr(twin, name), *arguments)
    assert by_kernel == by_twin
    assert type(by_kernel) is type(by_twin)
    return by_kernel


@settings(deadline=None, max_examples=150)
@given(
    given_payload=payloads(),
    base=st.sampled_from((0, 1_700_000_000_000, 2**63 - 1, -(2**63))),
    bounds=st.tuples(INT64, INT64).map(sorted) | st.just([-(2**63), 2**63 - 1]),
    key_required=st.booleans(),
)
def test_checking(
    given_payload: tuple[bytes, int], base: int, bounds: list[int], key_required: bool
) -> None:
    payload, count = given_payload
    arguments = (payload, count, base, *bounds, key_required)
    assert_same("check_records", kernel_walk, twin_walk, *arguments)
    if not payload:
        return
    # The answer depends on the payload alone, not on what lies behind it in memory.
    window = memoryview(payload + b"\x00\x02\x80" * 20)[: len(payload)]
    assert_same("check_records", kernel_walk, twin_walk, window, *arguments[1:])


@settings(deadline=None, max_examples=150)
@given(
    given_payload=payloads(),
    base_offset=st.sampled_from((0, 2**40, 2**63 - 1)),
    base_timestamp=st.sampled_from((0, 1_700_000_000_000, 2**63 - 1)),
    fixed=st.none() | INT64,
)
def test_reading(
    given_payload: tuple[bytes, int], base_offset: int, base_timestamp: int, fixed: int | None
) -> None:
    arguments = (*given_payload, base_offset, base_timestamp, fixed)
    found = assert_same("read_records", kernel_walk, twin_walk, *arguments)
    assert isinstance(found, list)
    for one in found:
        if isinstance(one, Record):
            assert pickle.loads(pickle.dumps(one)) == one
            assert one._replace(key=b"other").value == one.value
    assert_same("read_columns", kernel_walk, twin_walk, *arguments)


@settings(deadline=None, max_examples=100)
@given(given_payload=payloads())
def test_renumbering(given_payload: tuple[bytes, int]) -> None:
    assert_same("renumber_records", kernel_write, twin_write, *given_payload)


@settings(deadline=None, max_examples=150)
@given(
    given_payload=payloads(),
    keep=st.binary(min_size=50, max_size=50),
    bases=st.tuples(INT64, INT64) | INT64.map(lambda base: (base, base)),
)
def test_filtering(given_payload: tuple[bytes, int], keep: bytes, bases: tuple[int, int]) -> None:
    payload, count = given_payload
    count = max(0, min(count, len(keep)))
    assert_same("filter_records", kernel_write, twin_write, payload, count, keep[:count], *bases)


@settings(deadline=None, max_examples=100)
@given(some=records)
def test_encoding(some: list[Record]) -> None:
    assert_same("encode_records", kernel_write, twin_write, some)
    assert_same("encode_records", kernel_write, twin_write, tuple(some))


@pytest.mark.parametrize("content", ["text", 5, 1.5])
@pytest.mark.parametrize("write", [kernel_write, twin_write])
def test_only_bytes_are_encoded(write: ModuleType, content: object) -> None:
    for wrong in (Record(content, b""), Record(b"", content), Record(b"", b"", (("h", content),))):  # type: ignore[arg-type]  # the point
        with pytest.raises(TypeError):
            write.encode_records([wrong])


@pytest.mark.parametrize("write", [kernel_write, twin_write])
def test_bytes_of_every_kind_are_encoded(write: ModuleType) -> None:
    plain = write.encode_records([Record(b"key", b"value", (("h", b"x"),))])
    other = Record(bytearray(b"key"), memoryview(b"value"), (("h", bytearray(b"x")),))  # type: ignore[arg-type]  # the point
    assert write.encode_records([other]) == plain


@st.composite
def columns(draw: st.DrawFn) -> tuple[BytesColumn | None, int]:
    """A column of Arrow's layout, perhaps one that contradicts itself, and how many rows it has."""
    contents = draw(st.lists(field, max_size=20))
    skipped = draw(st.integers(0, min(3, len(contents))))
    width, kind = draw(st.sampled_from(((4, "i"), (8, "q"))))
    offsets = [0]
    validity = bytearray(len(contents) // 8 + 1)
    for row, content in enumerate(contents):
        offsets.append(offsets[-1] + len(content or b""))
        if content is not None:
            validity[row // 8] |= 1 << row % 8
    if draw(st.integers(0, 9)) == 0:
        offsets[draw(st.integers(0, len(contents)))] = draw(st.integers(-5, 5000))
    raw_offsets = struct.pack(f"={len(offsets)}{kind}", *offsets)
    if draw(st.integers(0, 19)) == 0:
        raw_offsets = raw_offsets[:-1]
    column = BytesColumn(
        data=b"".join(content or b"" for content in contents),
        offsets=raw_offsets,
        offset_bytes=width,
        validity=draw(
            st.sampled_from((bytes(validity), bytes(validity), None, bytes(validity)[1:]))
        ),
        start=skipped,
    )
    return draw(st.sampled_from((column, column, column, None))), len(contents) - skipped


@settings(deadline=None, max_examples=150)
@given(
    keys=columns(),
    values=columns(),
    timestamps=st.lists(INT64, max_size=20),
    start=st.integers(-1, 5),
    bytes_max=st.integers(0, 2000),
    order=st.none() | st.lists(st.integers(-1, 20), max_size=25),
)
def test_encoding_columns(
    keys: tuple[BytesColumn | None, int],
    values: tuple[BytesColumn | None, int],
    timestamps: list[int],
    start: int,
    bytes_max: int,
    order: list[int] | None,
) -> None:
    times = array("q", timestamps)
    for stop in (min(keys[1], values[1], len(timestamps)), len(timestamps)):
        arguments = (keys[0], values[0], None, times, None, start, stop, bytes_max)
        assert_same("encode_columns", kernel_write, twin_write, *arguments)
    if order is not None:
        arguments = (keys[0], values[0], None, times, array("q", order))
        assert_same("encode_columns", kernel_write, twin_write, *arguments, start, len(order), 5000)


@settings(deadline=None, max_examples=100)
@given(some=records, numbers=st.randoms())
def test_rows_are_encoded_in_the_order_that_is_given(some: list[Record], numbers: Random) -> None:
    order = [numbers.randrange(len(some)) for _ in some]
    wanted = twin_write.encode_records([some[row] for row in order])
    payload, count, base, _ = twin_write.encode_records(some)
    for walk, write in ((kernel_walk, kernel_write), (twin_walk, twin_write)):
        found = walk.read_columns(payload, count, 0, base, None)
        columns_found = (found.keys, found.values, found.headers, found.timestamps)
        given_order = array("q", order)
        assert write.encode_columns(*columns_found, given_order, 0, count, 1 << 30) == wanted


@settings(deadline=None, max_examples=150)
@given(
    names=columns(),
    contents=columns(),
    counts=st.lists(st.integers(-1, 4) | st.integers(0, 3), max_size=12),
)
def test_encoding_headers(
    names: tuple[BytesColumn | None, int],
    contents: tuple[BytesColumn | None, int],
    counts: list[int],
) -> None:
    arguments = (names[0], contents[0], array("i", counts))
    assert_same("encode_header_columns", kernel_write, twin_write, *arguments)


@settings(deadline=None)
@given(some=records)
def test_columns_read_from_records_encode_to_the_same_records(some: list[Record]) -> None:
    payload, count, base, _ = encoded = twin_write.encode_records(some)
    for walk, write in ((kernel_walk, kernel_write), (twin_walk, twin_write)):
        found = walk.read_columns(payload, count, 0, base, None)
        assert found.row_count == count
        again = write.encode_columns(
            found.keys, found.values, found.headers, found.timestamps, None, 0, count, 1 << 30
        )
        assert again == encoded


@settings(deadline=None, max_examples=100)
@given(keys=columns(), start=st.integers(-1, 5), partitions=st.integers(1, 1000))
def test_partitions_of_a_column(
    keys: tuple[BytesColumn | None, int], start: int, partitions: int
) -> None:
    column, rows = keys
    for stop in (rows, rows + 1):
        assert_same("partitions_of", kernel_write, twin_write, column, partitions, start, stop)


@given(data=st.binary(max_size=100))
def test_murmur2(data: bytes) -> None:
    assert kernel_write.murmur2(data) == twin_write.murmur2(data)


@settings(deadline=None, max_examples=100)
@given(
    batches=st.lists(payloads(), max_size=4),
    entries=st.integers(1, 40),
    base_offset=st.integers(0, 2**40),
)
def test_offsets_of_keys(batches: list[tuple[bytes, int]], entries: int, base_offset: int) -> None:
    by_kernel = kernel_keys.KeyOffsets(memory_bytes=48 * entries, load_factor=0.5)
    by_twin = twin_keys.KeyOffsets(memory_bytes=48 * entries, load_factor=0.5)
    assert by_kernel.entries_max == by_twin.entries_max == entries
    for step, (payload, count) in enumerate(batches):
        arguments = (payload, max(0, count), base_offset + 1000 * step)
        assert outcome(by_kernel.note, *arguments) == outcome(by_twin.note, *arguments)
        assert by_kernel.count == by_twin.count
        assert by_kernel.end_offset == by_twin.end_offset
    for step, (payload, count) in enumerate(batches):
        arguments = (payload, max(0, count), base_offset + 1000 * step)
        assert outcome(by_kernel.fates, *arguments) == outcome(by_twin.fates, *arguments)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 1000])
def test_keys_are_told_apart_by_the_hash_of_the_standard_library(size: int) -> None:
    """The kernel has a BLAKE2s of its own."""
    key = bytes(range(256)) * 4
    assert kernel_keys.digest(key[:size]) == twin_keys.digest(key[:size])


def test_a_bounded_number_of_faulty_records_is_listed() -> None:
    many = [Record(None if i % 2 else b"k", b"", timestamp_ms=i) for i in range(5000)]
    payload, count, base, _ = twin_write.encode_records(many)
    arguments = (payload, count, base, 10_000, 20_000, True)
    found: Any = assert_same("check_records", kernel_walk, twin_walk, *arguments)
    assert found.keyless_count == found.untimely_count == 2500
    assert len(found.keyless) == len(found.untimely) == 1000


def test_every_prefix_of_a_payload() -> None:
    """Whatever is cut off, nothing behind the end is looked at."""
    some = [Record(b"key" * i, b"value" * 20, (("h", b"x"),), i * 1000) for i in range(4)]
    payload, count, _, _ = twin_write.encode_records(some)
    for end in range(len(payload)):
        cut = bytes(payload[:end])
        assert_same("check_records", kernel_walk, twin_walk, cut, count, 0, 0, 2**62, True)
        assert_same("read_records", kernel_walk, twin_walk, cut, count, 0, 0, None)
        assert_same("read_columns", kernel_walk, twin_walk, cut, count, 0, 0, None)
        assert_same("renumber_records", kernel_write, twin_write, cut, count)
        assert_same("filter_records", kernel_write, twin_write, cut, count, b"\1" * count, 0, 9)


@given(st.binary(max_size=200))
def test_checksums_of_lz4_are_the_same(data: bytes) -> None:
    assert kernel_xxhash.xxh32(data) == twin_xxhash.xxh32(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_checksums_of_lz4_are_those_of_the_specification(data: bytes, expected: int) -> None:
    assert kernel_xxhash.xxh32(data) == twin_xxhash.xxh32(memoryview(data)) == expected
