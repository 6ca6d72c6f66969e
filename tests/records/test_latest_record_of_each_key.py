"""What compaction keeps: the latest record of each key, told within a bound of memory."""

from types import ModuleType

import pytest

from penstock.records.errors import CorruptBatch
from penstock.records.record import Record
from penstock.records.twin import keys as twin
from penstock.records.walk import read_records
from penstock.records.walked import Encoded
from penstock.records.write import encode_records, filter_records

kernel = pytest.importorskip(
    "penstock.records.kernel.keys", reason="needs the compiled record kernel"
)
both = pytest.mark.parametrize("keys", [kernel, twin], ids=["kernel", "twin"])

ROOMY_BYTES = 1 << 16


def batch(*keyed: tuple[bytes | None, bytes | None]) -> Encoded:
    return encode_records(
        [Record(key, value, timestamp_ms=1000 + i) for i, (key, value) in enumerate(keyed)]
    )


def note(offsets: "twin.KeyOffsets", encoded: Encoded, base_offset: int) -> int:
    return offsets.note(encoded.payload, encoded.record_count, base_offset)


def fates(offsets: "twin.KeyOffsets", encoded: Encoded, base_offset: int) -> list[int]:
    return list(offsets.fates(encoded.payload, encoded.record_count, base_offset))


@both
def test_later_record_of_a_key_supersedes_earlier_ones(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    first = batch((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    second = batch((b"b", b"2"))
    assert note(offsets, first, 0) == 3
    assert note(offsets, second, 3) == 1
    assert (offsets.count, offsets.end_offset) == (2, 4)
    assert fates(offsets, first, 0) == [keys.SUPERSEDED, keys.SUPERSEDED, keys.LATEST]
    assert fates(offsets, second, 3) == [keys.LATEST]


@both
def test_tombstones_are_told_from_values(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    some = batch((b"a", None), (b"b", b""), (b"c", None), (b"a", b"1"))
    note(offsets, some, 10)
    assert fates(offsets, some, 10) == [
        keys.SUPERSEDED,
        keys.LATEST,
        keys.TOMBSTONE,
        keys.LATEST,
    ]


@both
def test_record_without_a_key_is_not_kept(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    some = batch((None, b"1"), (b"", b"2"))
    note(offsets, some, 0)
    assert offsets.count == 1
    assert fates(offsets, some, 0) == [keys.SUPERSEDED, keys.LATEST]


@both
def test_what_was_not_noted_is_kept(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    note(offsets, batch((b"a", b"1")), 0)
    assert fates(offsets, batch((b"a", None), (b"z", None), (None, None)), 1) == [keys.LATEST] * 3


@both
def test_earlier_records_of_keys_never_noted_are_kept(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    note(offsets, batch((b"a", b"1")), 100)
    assert fates(offsets, batch((b"a", b"0"), (b"z", b"0"), (b"y", None)), 5) == [
        keys.SUPERSEDED,
        keys.LATEST,
        keys.TOMBSTONE,
    ]


@both
def test_full_map_says_how_far_it_came(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=24 * 4, load_factor=0.5)
    assert offsets.entries_max == 2
    some = batch((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"a", b"3"))
    assert note(offsets, some, 0) == 3
    assert offsets.end_offset == 3
    assert fates(offsets, some, 0) == [keys.SUPERSEDED, *[keys.LATEST] * 4]


@both
def test_twenty_thousand_updates_agree_with_a_dictionary(keys: ModuleType) -> None:
    expected: dict[bytes, int] = {}
    offsets = keys.KeyOffsets(memory_bytes=24 * 1200)
    batches = []
    for step in range(20):
        keyed = [b"key %d" % (i * i * 7919 % 1009) for i in range(step * 1000, step * 1000 + 1000)]
        encoded = batch(*((key, b"v") for key in keyed))
        assert note(offsets, encoded, step * 1000) == 1000
        expected.update((key, step * 1000 + index) for index, key in enumerate(keyed))
        batches.append(encoded)
    assert offsets.count == len(expected)
    kept: dict[bytes | None, int] = {}
    for step, encoded in enumerate(batches):
        fate = offsets.fates(encoded.payload, encoded.record_count, step * 1000)
        left = filter_records(encoded.payload, encoded.record_count, fate, 0, 0)
        for record in read_records(left.payload, left.record_count, step * 1000, 0, None):
            assert record.key not in kept
            kept[record.key] = record.offset
    assert kept == expected


@both
def test_damaged_records_are_told(keys: ModuleType) -> None:
    offsets = keys.KeyOffsets(memory_bytes=ROOMY_BYTES)
    some = batch((b"a", b"1"), (b"b", b"1"))
    for wrong in (some.payload[:-1], some.payload + b"\x00"):
        with pytest.raises(CorruptBatch):
            offsets.note(wrong, 2, 0)
        with pytest.raises(CorruptBatch):
            offsets.fates(wrong, 2, 0)


def test_filtered_records_keep_offset_and_time_on_a_new_base() -> None:
    some = [Record(b"k%d" % i, b"v", (("h", b"x"),), 5000 + i) for i in range(6)]
    payload, count, base, _ = encode_records(some)
    left = filter_records(payload, count, bytes((1, 0, 2, 0, 0, 1)), base, 10**15)
    assert (left.record_count, left.max_timestamp) == (3, 5005)
    found = list(read_records(left.payload, 3, 40, 10**15, None))
    assert [one.offset for one in found] == [40, 42, 45]
    assert [one._replace(offset=some[0].offset) for one in found] == [some[0], some[2], some[5]]
