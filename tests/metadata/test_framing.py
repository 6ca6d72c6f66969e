"""A decision of several batches is seen whole or not at all (KIP-868)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.framing import FrameReader, batched
from penstock.metadata.image.image import Delta
from penstock.metadata.loader import Loader
from penstock.metadata.records import (
    LogRecord,
    MetadataRecord,
    UnreadableMetadata,
    decode_record,
    encode_record,
)
from penstock.model.configs import ResourceKind
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.transaction import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

EPOCH = LeaderEpoch(1)


def setting(value: str) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceKind.GROUP, resource_name="g", name=f"n{value}", value=value
    )


def settings(count: int) -> list[MetadataRecord]:
    return [setting(str(index)) for index in range(count)]


@given(count=st.integers(1, 40), records_max=st.integers(1, 12), bytes_max=st.integers(300, 900))
def test_a_frame_read_batch_by_batch_takes_effect_with_its_last_batch(
    count: int, records_max: int, bytes_max: int
) -> None:
    records = settings(count)
    batches = batched(records, records_max=records_max, bytes_max=bytes_max)
    assert all(len(batch) <= records_max for batch in batches)
    reader = FrameReader()
    for batch in batches[:-1]:
        assert reader.read(decode_record(value) for value in batch) == []
        assert reader.is_open
    assert reader.read(decode_record(value) for value in batches[-1]) == records
    assert not reader.is_open
    if count > records_max:
        first, last = decode_record(batches[0][0]), decode_record(batches[-1][-1])
        assert isinstance(first, BeginTransactionRecord)
        assert isinstance(last, EndTransactionRecord)


def test_batches_of_a_frame_are_bounded_in_bytes() -> None:
    large = [setting("x" * 100) for _ in range(50)]
    batches = batched(large, records_max=10, bytes_max=500)
    assert max(sum(map(len, batch)) for batch in batches) <= 500
    assert len(batches) >= 50 * 100 // 500


def test_what_fits_into_one_batch_has_no_frame() -> None:
    records = settings(10)
    assert batched(records, records_max=10) == [[encode_record(record) for record in records]]


def test_an_aborted_frame_has_no_effect() -> None:
    reader = FrameReader()
    log: list[LogRecord] = [
        setting("1"),
        BeginTransactionRecord(),
        setting("2"),
        AbortTransactionRecord(reason="a test"),
        setting("3"),
    ]
    assert reader.read(log) == [setting("1"), setting("3")]


@pytest.mark.parametrize(
    "log",
    [
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
    ],
)
def test_frames_that_do_not_fit_are_unreadable(log: list[LogRecord]) -> None:
    with pytest.raises(UnreadableMetadata):
        FrameReader().read(log)


def test_an_image_never_ends_inside_a_frame() -> None:
    loader = Loader()
    loader.load([setting("0")], next_offset=Offset(1), epoch=EPOCH)
    steps: list[tuple[list[LogRecord], int]] = [
        ([setting("1"), BeginTransactionRecord(), setting("2")], 4),
        ([setting("3")], 5),
    ]
    for records, next_offset in steps:
        delta, image = loader.load(records, next_offset=Offset(next_offset), epoch=EPOCH)
        assert delta == Delta()
        assert image.offset == 1
        assert set(image.config(ResourceKind.GROUP, "g")) == {"n0"}
        assert loader.in_frame
    end: list[LogRecord] = [setting("4"), EndTransactionRecord(), setting("5")]
    delta, image = loader.load(end, next_offset=Offset(8), epoch=EPOCH)
    assert len(delta.configs_changed) == 1
    assert image.offset == 8
    assert set(image.config(ResourceKind.GROUP, "g")) == {f"n{index}" for index in range(6)}
    assert not loader.in_frame
