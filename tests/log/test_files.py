"""The small files and the indexes, byte for byte as Apache Kafka writes them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.aborted_index import AbortedTransaction, decode_aborted, encode_aborted
from penstock.log.checkpoint import (
    DirectoryIdentity,
    decode_identity,
    decode_offsets,
    decode_partition_metadata,
    encode_identity,
    encode_offsets,
    encode_partition_metadata,
)
from penstock.log.epochs import LeaderEpochs
from penstock.log.errors import CorruptCheckpoint, CorruptIndex
from penstock.log.layout import (
    STRAY_DIRECTORY,
    parse_partition_directory,
    parse_segment_file,
    retired_directory,
    segment_path,
)
from penstock.log.offset_index import OffsetIndex
from penstock.log.time_index import TimeIndex
from penstock.model.identity import NodeId, ProducerId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset


def test_offset_checkpoint_reads_as_kafka_writes_it() -> None:
    data = b"0\n2\na.b_c 0 120\norders 11 98\n"
    offsets = {TopicPartition("a.b_c", 0): Offset(120), TopicPartition("orders", 11): Offset(98)}
    assert decode_offsets("path", data) == offsets
    assert encode_offsets(offsets) == data


def test_empty_checkpoint_is_one_without_lines() -> None:
    assert decode_offsets("path", b"") == {}
    assert decode_offsets("path", b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n", b"\xff\xfe", b"0\n"]
)
def test_checkpoint_that_does_not_read_as_one_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets("path", data)


def test_partition_metadata_reads_as_kafka_writes_it() -> None:
    data = b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    topic_id = TopicId(bytes(range(16)))
    assert encode_partition_metadata(topic_id) == data
    assert decode_partition_metadata("path", data) == topic_id
    with pytest.raises(CorruptCheckpoint):
        decode_partition_metadata("path", b"version: 0\ntopic_id: nonsense")


def test_identity_reads_as_kafka_writes_it() -> None:
    written = (
        b"#\n#Sun Nov 15 04:45:23 UTC 2026\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
        b"directory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=3\nversion=1\n"
    )
    identity = DirectoryIdentity(
        cluster_id="4L6g3nShT-eMCtK--X86sw", node_id=NodeId(3), directory_id=bytes(range(16))
    )
    assert decode_identity("path", written) == identity
    assert decode_identity("path", encode_identity(identity)) == identity
    with pytest.raises(CorruptCheckpoint):
        decode_identity("path", b"version=1\nnode.id=3\n")


def test_names_of_segments_and_directories() -> None:
    assert segment_path("/d", Offset(42), ".log") == "/d/00000000000000000042.log"
    assert parse_segment_file("00000000000000000042.timeindex") == (42, ".timeindex")
    assert parse_segment_file("00000000000000000042.log.deleted") is None
    assert parse_partition_directory("my-topic.v1-12") == TopicPartition("my-topic.v1", 12)
    assert parse_partition_directory("orders-0.5b3c-delete") is None
    name = retired_directory(TopicPartition("t" * 249, 3), bytes(16), STRAY_DIRECTORY)
    assert len(name) == 255
    assert name.endswith(f"-3.{'00' * 16}-stray")


def test_offset_index_is_eight_bytes_an_entry() -> None:
    index = OffsetIndex(Offset(100))
    index.append(Offset(104), 4096)
    index.append(Offset(109), 0x010000)
    assert index.encode() == bytes.fromhex("0000000400001000 0000000900010000")


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10**6)), max_size=60),
    st.integers(0, 200),
)
def test_offset_index_finds_the_last_entry_not_beyond(
    steps: list[tuple[int, int]], reserve: int
) -> None:
    index = OffsetIndex(Offset(1000))
    entries: list[tuple[int, int]] = []
    offset, position = 1000, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(Offset(offset), position)
        entries.append((offset, position))
    data = index.encode() + bytes(reserve * 8)
    again = OffsetIndex.decode(Offset(1000), data, log_bytes=position + 1)
    assert again.encode() == index.encode()
    for target in {1000, *(entry[0] + delta for entry in entries for delta in (-1, 0, 1))}:
        expected = max((entry[1] for entry in entries if entry[0] <= target), default=0)
        assert again.position_before(Offset(target)) == expected
        beyond = min((entry[1] for entry in entries if entry[0] > target), default=None)
        assert again.position_at(Offset(target)) == beyond
    cut = Offset(1000 + (offset - 1000) // 2)
    again.truncate(cut)
    assert len(again) == sum(entry[0] < cut for entry in entries)


def test_time_index_is_twelve_bytes_an_entry() -> None:
    index = TimeIndex(Offset(100))
    index.append(5, Offset(104))
    index.append(5, Offset(107))  # no later than the last: no entry
    index.append(9, Offset(109))
    assert index.encode() == bytes.fromhex("000000000000000500000004 000000000000000900000009")
    assert [index.offset_before(ms) for ms in (4, 5, 8, 9, 100)] == [100, 104, 104, 109, 109]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 1000)), max_size=40))
def test_time_index_round_trip_with_kafkas_reserve(steps: list[tuple[int, int]]) -> None:
    index = TimeIndex(Offset(7))
    timestamp_ms, offset = 0, 7
    for timestamp_step, offset_step in steps:
        timestamp_ms, offset = timestamp_ms + timestamp_step, offset + offset_step
        index.append(timestamp_ms, Offset(offset))
    again = TimeIndex.decode(Offset(7), index.encode() + bytes(12 * 800))
    assert again.encode() == index.encode()
    assert again.last() == index.last()


def test_time_of_the_first_millisecond_is_an_entry_too() -> None:
    index = TimeIndex(Offset(0))
    index.append(0, Offset(0))
    assert TimeIndex.decode(Offset(0), index.encode()).last() == (0, 0)


def test_index_that_cannot_be_right_is_refused() -> None:
    growing = OffsetIndex(Offset(0))
    growing.append(Offset(5), 100)
    growing.append(Offset(9), 200)
    data = growing.encode()
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(Offset(0), data, log_bytes=200)
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(Offset(0), data[8:] + data[:8], log_bytes=1000)
    backwards = data[:8] + (9).to_bytes(4) + (50).to_bytes(4)
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(Offset(0), backwards, log_bytes=1000)


@pytest.mark.parametrize("missing", range(1, 8))
def test_offset_index_that_ends_within_an_entry_is_refused(missing: int) -> None:
    index = OffsetIndex(Offset(0))
    index.append(Offset(10), 5000)
    index.append(Offset(20), 0x00010203)
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(Offset(0), index.encode()[:-missing], log_bytes=10**6)


@pytest.mark.parametrize("missing", range(1, 12))
def test_time_index_that_ends_within_an_entry_is_refused(missing: int) -> None:
    index = TimeIndex(Offset(0))
    index.append(1000, Offset(1))
    index.append(2000, Offset(0x00010203))
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(Offset(0), index.encode()[:-missing])


@given(st.binary(max_size=200))
def test_any_bytes_make_an_index_or_are_refused(data: bytes) -> None:
    for decode in (
        lambda: OffsetIndex.decode(Offset(3), data, log_bytes=1000),
        lambda: TimeIndex.decode(Offset(3), data),
        lambda: decode_aborted(data, base_offset=Offset(3)),
    ):
        with contextlib.suppress(CorruptIndex):
            decode()


def test_aborted_transaction_is_thirty_four_bytes() -> None:
    one = AbortedTransaction(
        producer_id=ProducerId(7),
        first_offset=Offset(10),
        last_offset=Offset(20),
        last_stable_offset=Offset(15),
    )
    data = encode_aborted((one,))
    assert data.hex() == "0000" + "".join(f"{number:016x}" for number in (7, 10, 20, 15))
    assert decode_aborted(data + b"torn", base_offset=Offset(0)) == [one]


def test_epochs_read_as_kafka_writes_them() -> None:
    epochs = LeaderEpochs.decode("path", b"0\n2\n3 0\n5 120\n")
    assert epochs.encode(end_offset=Offset(1000)) == b"0\n2\n3 0\n5 120\n"
    assert [epochs.epoch_at(Offset(o)) for o in (0, 119, 120)] == [3, 3, 5]


@pytest.mark.parametrize(
    ("asked", "expected"), [(5, (5, 200)), (3, (3, 120)), (4, (3, 120)), (1, (1, 0)), (6, None)]
)
def test_end_of_an_epoch(asked: int, expected: tuple[int, int] | None) -> None:
    epochs = LeaderEpochs.decode("path", b"0\n2\n3 0\n5 120\n")
    found = epochs.end_of(LeaderEpoch(asked), end_offset=Offset(200))
    assert (found and (found.leader_epoch, found.end_offset)) == expected


def test_epoch_without_records_gives_way_to_the_next() -> None:
    epochs = LeaderEpochs()
    for epoch, start in ((0, 0), (1, 10), (2, 10), (4, 15), (3, 12)):
        epochs.assign(LeaderEpoch(epoch), Offset(start))
    assert [(e.epoch, e.start_offset) for e in epochs.entries] == [(0, 0), (2, 10), (3, 12)]
    epochs.check()


def test_epochs_are_cut_with_the_log() -> None:
    epochs = LeaderEpochs.decode("path", b"0\n3\n0 0\n1 10\n2 20\n")
    epochs.truncate_end(Offset(20))
    epochs.truncate_start(Offset(12))
    assert [(e.epoch, e.start_offset) for e in epochs.entries] == [(1, 11)]
