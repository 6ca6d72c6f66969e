"""What a fetch reply means for a range: data, a gap, a loss, or to ask again."""

import pytest

from penstock.client.consume.isolation import Isolation
from penstock.model.error import ErrorCode
from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.spark.source.fetch_reply import (
    EMPTY_MS_BELIEVED,
    Again,
    Answer,
    Brought,
    Gap,
    Hopeless,
    NotReached,
    OutOfRange,
    fetch_bytes,
    judged,
)
from penstock.wire.messages.fetch import PartitionData


def answer(
    told: PartitionData | None,
    *,
    position: int = 10,
    end: int = 20,
    empty_before: int = 0,
    empty_ms: int = 0,
    others_brought: bool = False,
) -> Answer:
    return judged(
        told,
        position=Offset(position),
        end=Offset(end),
        isolation=Isolation.READ_COMMITTED,
        empty_before=empty_before,
        empty_ms=empty_ms,
        others_brought=others_brought,
    )


def records(base_offset: int, count: int) -> memoryview:
    some = [Record(None, b"x", (), 1) for _ in range(count)]
    return memoryview(bytes(build_batch(some, base_offset=Offset(base_offset))))


def test_whole_batches_bring_the_reader_behind_the_last() -> None:
    cut_off = memoryview(bytes(records(8, 5)) + bytes(records(13, 3))[:-1])
    assert answer(PartitionData(records=cut_off)) == Brought(Offset(13))


def test_an_empty_reply_is_a_gap_when_the_end_is_readable_and_it_is_said_for_seconds() -> None:
    empty = PartitionData(high_watermark=50, last_stable_offset=20, records=memoryview(b""))
    first = answer(empty)
    assert isinstance(first, Again)
    assert first.empty
    busy = answer(empty, empty_before=9, empty_ms=EMPTY_MS_BELIEVED - 1)
    assert isinstance(busy, Again)
    assert answer(empty, empty_before=1, empty_ms=EMPTY_MS_BELIEVED) == Gap()


def test_a_reply_that_others_have_filled_says_nothing_of_a_gap() -> None:
    empty = PartitionData(high_watermark=50, last_stable_offset=20, records=memoryview(b""))
    told = {"empty_before": 9, "empty_ms": EMPTY_MS_BELIEVED, "others_brought": True}
    assert answer(empty, **told) == NotReached()  # type: ignore[arg-type]
    cut_off = PartitionData(
        high_watermark=50, last_stable_offset=20, records=memoryview(bytes(records(10, 5))[:-1])
    )
    assert answer(cut_off, **told) == NotReached()  # type: ignore[arg-type]
    behind = PartitionData(high_watermark=50, last_stable_offset=19, records=memoryview(b""))
    assert isinstance(answer(behind, **told), Again)  # type: ignore[arg-type]


def test_an_empty_reply_below_the_last_stable_offset_is_waited_for() -> None:
    behind = PartitionData(high_watermark=50, last_stable_offset=19, records=memoryview(b""))
    for before in range(5):
        assert isinstance(answer(behind, empty_before=before, empty_ms=60_000), Again)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.FENCED_LEADER_EPOCH],
)
def test_what_passes_is_asked_again_with_new_metadata(code: ErrorCode) -> None:
    found = answer(PartitionData(error_code=code))
    assert isinstance(found, Again)
    assert found.stale_metadata


def test_a_reply_that_leaves_the_partition_out_is_asked_again() -> None:
    assert isinstance(answer(None), Again)


def test_errors_that_do_not_pass_end_the_task() -> None:
    refused = PartitionData(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert answer(refused) == Hopeless(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert answer(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)) == OutOfRange()


def test_a_small_range_asks_for_little_and_a_large_one_for_no_more_than_it_may() -> None:
    assert fetch_bytes(left=10, seen_bytes=0, seen_offsets=0, bytes_max=8 * MIB) == 256 * KIB
    assert fetch_bytes(left=10**9, seen_bytes=0, seen_offsets=0, bytes_max=8 * MIB) == 8 * MIB
    known = fetch_bytes(left=10_000, seen_bytes=10_000, seen_offsets=100, bytes_max=8 * MIB)
    assert 10_000 * 100 < known < 2 * 10_000 * 100
