"""Positions, prefetching and what is handed out, without a broker."""

import pytest

from penstock.client.consume.cursor import Cursors, Reset
from penstock.client.consume.fetched_data import FetchedData
from penstock.client.consume.visible_batches import Aborted
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.offset import Offset
from penstock.records.build import build_batch
from penstock.records.control import EndTransaction, end_transaction_batch
from penstock.records.errors import CorruptBatch
from penstock.records.record import Record

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def batch(base_offset: int, count: int, *, producer_id: int | None = None) -> bytearray:
    records = [Record(None, b"%d" % (base_offset + n), (), 1) for n in range(count)]
    if producer_id is None:
        return build_batch(records, base_offset=Offset(base_offset))
    return build_batch(
        records,
        base_offset=Offset(base_offset),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
        transactional=True,
    )


def abort(offset: int, producer_id: int) -> bytearray:
    return end_transaction_batch(
        EndTransaction(committed=False, coordinator_epoch=0),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=1,
        base_offset=Offset(offset),
    )


def fetched(
    data: bytes,
    position: int,
    place: TopicPartition = PLACE,
    *,
    committed: bool = False,
    aborted: tuple[Aborted, ...] = (),
) -> FetchedData:
    return FetchedData(
        place,
        memoryview(bytes(data)),
        position=Offset(position),
        read_committed=committed,
        aborted=aborted,
    )


def cursors(
    *places: TopicPartition, bytes_max: int = 10_000, reset: Reset = Reset.LATEST
) -> Cursors:
    made = Cursors(buffered_bytes_max=bytes_max, reset=reset)
    made.assign(places or (PLACE,))
    for place in made.by_partition:
        made.seek(place, Offset(0))
    return made


def arrive(made: Cursors, data: FetchedData) -> None:
    made.fetched(data, move=made.by_partition[data.partition].move)
    made.check()


def offsets(made: Cursors, count: int = 100) -> list[int]:
    taken = [record.offset for record in made.take(count)]
    made.check()
    return taken


def test_records_before_the_position_are_left_out() -> None:
    made = cursors()
    made.seek(PLACE, Offset(3))
    arrive(made, fetched(batch(0, 5), 3))
    assert offsets(made) == [3, 4]


def test_partition_is_fetched_on_while_its_records_wait() -> None:
    made = cursors()
    arrive(made, fetched(batch(0, 5), 0))
    (cursor,) = made.fetchable(0)
    assert cursor.fetch_position == 5
    assert cursor.position == 0
    arrive(made, fetched(batch(5, 2), 5))
    assert offsets(made, 3) == [0, 1, 2]
    assert offsets(made) == [3, 4, 5, 6]


def test_nothing_is_fetched_beyond_the_bound() -> None:
    made = cursors(bytes_max=100)
    arrive(made, fetched(batch(0, 50), 0))
    assert made.fetchable(0) == []
    offsets(made)
    assert len(made.fetchable(0)) == 1


def test_seek_drops_what_was_fetched_and_what_is_under_way() -> None:
    made = cursors()
    arrive(made, fetched(batch(0, 5), 0))
    under_way = made.by_partition[PLACE].move
    made.seek(PLACE, Offset(90))
    made.fetched(fetched(batch(5, 5), 5), move=under_way)
    made.check()
    assert offsets(made) == []
    assert made.by_partition[PLACE].position == 90


def test_paused_partition_keeps_its_records_in_order_until_resumed() -> None:
    made = cursors(PLACE, OTHER)
    arrive(made, fetched(batch(0, 2), 0))
    arrive(made, fetched(batch(0, 1), 0, OTHER))
    arrive(made, fetched(batch(2, 2), 2))
    made.by_partition[PLACE].paused = True
    assert [(r.partition, r.offset) for r in made.take(100)] == [(1, 0)]
    assert [cursor.partition for cursor in made.fetchable(0)] == [OTHER]
    made.by_partition[PLACE].paused = False
    assert offsets(made) == [0, 1, 2, 3]


def test_partition_given_back_is_forgotten() -> None:
    made = cursors(PLACE, OTHER)
    arrive(made, fetched(batch(0, 2), 0))
    made.assign([OTHER])
    assert offsets(made) == []
    assert made.buffered_bytes == 0


def test_what_was_asked_before_a_partition_was_given_back_is_void_when_it_is_given_again() -> None:
    made = cursors(PLACE, reset=Reset.EARLIEST)
    fetch = made.by_partition[PLACE].move
    made.assign([])
    made.assign([PLACE])
    look_up = made.by_partition[PLACE].move
    made.assign([])
    made.assign([PLACE])
    made.looked_up(PLACE, Offset(3), move=look_up)
    assert made.by_partition[PLACE].position is None
    made.seek(PLACE, Offset(7))
    made.fetched(fetched(batch(0, 5), 0), move=fetch)
    assert made.out_of_range(PLACE, move=fetch)
    made.check()
    assert offsets(made) == []
    assert made.by_partition[PLACE].position == 7


def test_batch_cut_off_at_the_end_of_a_reply_is_fetched_again() -> None:
    made = cursors()
    data = batch(0, 3) + batch(3, 3)
    arrive(made, fetched(data[:-1], 0))
    assert made.by_partition[PLACE].fetch_position == 3
    assert offsets(made) == [0, 1, 2]


def test_wrong_checksum_is_told_after_the_good_records_before_it() -> None:
    made = cursors()
    data = batch(0, 3) + batch(3, 3)
    data[-1] ^= 1
    arrive(made, fetched(data, 0))
    assert offsets(made) == [0, 1, 2]
    with pytest.raises(CorruptBatch, match="offset 3"):
        made.take(100)
    assert made.by_partition[PLACE].position == 3
    made.check()


def test_markers_are_never_handed_out_but_passed() -> None:
    made = cursors()
    arrive(made, fetched(batch(0, 2, producer_id=7) + abort(2, 7), 0))
    assert offsets(made) == [0, 1]
    assert made.by_partition[PLACE].position == 3


def test_reader_of_the_committed_sees_no_aborted_records() -> None:
    made = cursors()
    data = (
        batch(0, 2, producer_id=7)
        + batch(2, 1, producer_id=8)
        + abort(3, 7)
        + batch(4, 2, producer_id=7)
        + batch(6, 1)
    )
    aborted = (Aborted(producer_id=ProducerId(7), first_offset=Offset(0)),)
    arrive(made, fetched(data, 0, committed=True, aborted=aborted))
    assert offsets(made) == [2, 4, 5, 6]


def test_a_fetch_that_begins_at_an_abort_marker_hides_nothing_behind_it() -> None:
    made = cursors()
    made.seek(PLACE, Offset(3))
    aborted = (Aborted(producer_id=ProducerId(7), first_offset=Offset(0)),)
    data = abort(3, 7) + batch(4, 2, producer_id=7)
    arrive(made, fetched(data, 3, committed=True, aborted=aborted))
    assert offsets(made) == [4, 5]


def test_position_out_of_range_starts_over_as_the_rule_says() -> None:
    made = cursors(reset=Reset.EARLIEST)
    assert made.out_of_range(PLACE, move=made.by_partition[PLACE].move)
    (cursor,) = made.without_position(0)
    assert cursor.look_up is Reset.EARLIEST
    made.looked_up(PLACE, Offset(17), move=cursor.move)
    assert cursor.position == 17


def test_position_out_of_range_without_a_rule_is_an_error() -> None:
    made = cursors(reset=Reset.NONE)
    assert not made.out_of_range(PLACE, move=made.by_partition[PLACE].move)


def test_records_fetched_before_the_log_was_cut_are_handed_out_first() -> None:
    made = cursors(reset=Reset.EARLIEST)
    arrive(made, fetched(batch(0, 2), 0))
    assert made.out_of_range(PLACE, move=made.by_partition[PLACE].move)
    assert offsets(made) == [0, 1]


def test_look_up_that_comes_after_a_seek_is_void() -> None:
    made = Cursors(buffered_bytes_max=1, reset=Reset.EARLIEST)
    made.assign([PLACE])
    (cursor,) = made.without_position(0)
    before = cursor.move
    made.seek(PLACE, Offset(5))
    made.looked_up(PLACE, Offset(0), move=before)
    assert cursor.position == 5
