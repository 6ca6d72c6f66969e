"""The judge of clusters whose nodes are killed finds what it is there to find."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rig.failover.acked_records import AckedRecords, FoundRecord, judge, unacked, value_of
from rig.failover.producers import ConfluentLedgerProducer
from rig.failover.replica_logs import batches_of, differences
from rig.held_port import HeldPort
from rig.produced import produced

PARTITIONS = 2
SENT = 10

Records = list[FoundRecord]


def promised() -> AckedRecords:
    """Ten records, five a partition, all acked but the last."""
    records = AckedRecords("p", partitions=PARTITIONS)
    for _ in range(SENT):
        number = records.next_number()
        if number < SENT - 1:
            records.acked(number, partition=number % PARTITIONS, offset=number // PARTITIONS)
    return records


def kept() -> Records:
    return [
        FoundRecord(number % PARTITIONS, number // PARTITIONS, value_of("p", number))
        for number in range(SENT - 1)
    ]


def lost(records: Records) -> None:
    del records[-1]


def lost_in_the_middle(records: Records) -> None:
    del records[2]


def doubled(records: Records) -> None:
    records.append(FoundRecord(0, 5, value_of("p", 8)))


def moved(records: Records) -> None:
    records.insert(0, FoundRecord(0, 0, value_of("p", SENT)))
    records[1:] = [one._replace(offset=one.offset + (one.partition == 0)) for one in records[1:]]


def out_of_order(records: Records) -> None:
    records[0] = records[0]._replace(value=value_of("p", 2))
    records[2] = records[2]._replace(value=value_of("p", 0))


def of_nobody(records: Records) -> None:
    records.append(FoundRecord(1, 4, value_of("q", 0)))


def test_what_was_acked_and_is_there_is_right() -> None:
    assert judge([promised()], kept()) == []


def test_a_record_whose_outcome_is_open_may_be_there() -> None:
    assert judge([promised()], [*kept(), FoundRecord(1, 4, value_of("p", SENT - 1))]) == []


def test_a_record_that_was_acked_without_an_offset_must_be_there() -> None:
    records = promised()
    records.acked(SENT - 1, partition=1, offset=-1)
    assert judge([records], kept()) == ["p: 9 was acked at partition 1, offset None, and is lost"]
    assert judge([records], [*kept(), FoundRecord(1, 4, value_of("p", 9))]) == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lost, "p: 8 was acked at partition 0, offset 4, and is lost"),
        (lost_in_the_middle, "p: 2 was acked at partition 0, offset 1, and is lost"),
        (lost_in_the_middle, "partition 0: offset 2 follows 0"),
        (doubled, "p: 8 stands at partition 0, offset 5, and another time"),
        (moved, "p: 0 stands at partition 0, offset 1, and was acked at offset 0"),
        (moved, "p: 10 stands at partition 0, offset 0, and was never sent"),
        (out_of_order, "p: 0 stands at partition 0, offset 1, after 2"),
        (of_nobody, "q: 0 stands at partition 1, offset 4, and was never sent"),
    ],
)
def test_a_broken_promise_is_told(damage: Callable[[Records], None], said: str) -> None:
    records = kept()
    damage(records)
    assert said in judge([promised()], records)


def test_an_ack_that_cannot_be_is_told() -> None:
    records = promised()
    records.acked(0, partition=0, offset=7)
    records.acked(9, partition=0, offset=7)
    assert judge([records], kept()) == ["p: 0 was acked twice", "p: 9 was acked at partition 0"]


def test_records_that_a_client_gave_up_are_told() -> None:
    records = promised()
    records.failed(SENT - 1, "it took too long")
    assert unacked([records]) == ["p: 1 of 10 records were given up: it took too long"]


def test_records_that_no_client_tells_of_are_told() -> None:
    assert unacked([promised()]) == ["p: 1 of 10 records were neither acked nor given up"]


def test_producers_whose_records_were_all_acked_are_right() -> None:
    records = promised()
    records.acked(SENT - 1, partition=1, offset=4)
    assert unacked([records]) == []


def test_what_librdkafka_gives_up_is_told() -> None:
    nobody = HeldPort()
    records = AckedRecords("p", partitions=PARTITIONS)
    impatient = {"message.timeout.ms": 200}
    producer = ConfluentLedgerProducer(nobody.address, "t", records, rate=50, settings=impatient)
    records.until(lambda: records.errors.total() > 0, what="something is given up")
    producer.finish()
    [told] = unacked([records])
    assert told.startswith(f"p: {records.sent} of {records.sent} records were given up: ")


def write_log(directory: Path, *batches: bytes, segments: int = 1) -> Path:
    """Batches in as many segments, one record a batch from offset 0 on."""
    directory.mkdir()
    each = -(-len(batches) // segments)
    for first in range(0, len(batches), each):
        content = b"".join(batches[first : first + each])
        (directory / f"{first:020}.log").write_bytes(content)
    return directory


def batch(offset: int, value: bytes = b"value") -> bytes:
    return offset.to_bytes(8, "big") + bytes(produced(value=value))[8:]


def test_replicas_with_other_segments_are_equal(tmp_path: Path) -> None:
    batches = [batch(offset) for offset in range(6)]
    whole = write_log(tmp_path / "whole", *batches)
    split = write_log(tmp_path / "split", *batches, segments=3)
    assert [one.offset for one in batches_of(split)] == list(range(6))
    assert differences({"a": whole, "b": split}, watermark=6) == []


def test_what_lies_above_the_watermark_may_differ(tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", *[batch(offset) for offset in range(4)])
    other = write_log(tmp_path / "other", batch(0), batch(1), batch(2, b"other"))
    assert differences({"a": one, "b": other}, watermark=2) == []


def test_an_incomplete_last_batch_is_left_out(tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", batch(0), batch(1))
    other = write_log(tmp_path / "other", batch(0), batch(1)[:-1])
    assert differences({"a": one, "b": other}, watermark=1) == []
    assert differences({"a": one, "b": other}, watermark=2) == [
        "a has 1 to 1 in 76 bytes, b has nothing",
        "b ends at 1, below the high watermark 2",
    ]


def test_a_batch_with_other_bytes_is_told(tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", batch(0), batch(1))
    other = write_log(tmp_path / "other", batch(0), batch(1, b"vAlue"))
    [told] = differences({"a": one, "b": other}, watermark=2)
    assert told.startswith("a has 1 to 1 in 76 bytes, b has 1 to 1 in 76 bytes, first difference")


def test_a_log_that_goes_back_or_is_no_chain_of_batches_is_told(tmp_path: Path) -> None:
    right = write_log(tmp_path / "right", batch(0), batch(1))
    back = write_log(tmp_path / "back", batch(0), batch(0))
    broken = write_log(tmp_path / "broken", batch(0), bytes(8) + b"\1" * 70)
    [told] = differences({"a": right, "b": back}, watermark=2)
    assert told.endswith("offset 0 after 0")
    [told] = differences({"a": right, "b": broken}, watermark=2)
    assert told.endswith("no batch at position 76")
