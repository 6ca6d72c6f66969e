"""Rates from two looks at a cluster: records, bytes, requests."""

from penstock.client.admin.partition_rates import Look, rates_between, written_between
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

BUSY, QUIET, NEW = (TopicPartition("t", index) for index in range(3))


def looked(at_ms: int, ends: dict[TopicPartition, int], *, start: int = 0) -> Look:
    """Each record has 100 bytes."""
    return Look(
        at_ms=at_ms,
        start_offset={place: Offset(start) for place in ends},
        end_offset={place: Offset(end) for place, end in ends.items()},
        size_bytes={place: (end - start) * 100 for place, end in ends.items()},
        committed={},
    )


FIRST = looked(0, {BUSY: 1_000, QUIET: 50})
THEN = looked(2_000, {BUSY: 1_600, QUIET: 50, NEW: 10})


def test_requests_are_the_batches_that_so_many_records_had() -> None:
    busy, quiet = rates_between(FIRST, THEN, batches_per_record={BUSY: 0.25})
    assert (busy.records, busy.in_bytes, busy.requests) == (300, 30_000, 75)
    assert (quiet.records, quiet.in_bytes, quiet.requests) == (0, 0, 0)


def test_requests_of_a_partition_that_cannot_be_read_are_not_known() -> None:
    busy, quiet = rates_between(FIRST, THEN)
    assert busy.requests is None
    assert quiet.requests == 0, "nothing was written"


def test_what_was_written_meanwhile_is_sampled_as_far_as_it_is_still_there() -> None:
    written = written_between(FIRST, THEN)
    assert set(written) == {BUSY, QUIET}
    assert (written[BUSY].start_offset, written[BUSY].count) == (1_000, 600)
    assert written[QUIET].count == 0
    trimmed = written_between(FIRST, looked(2_000, {BUSY: 1_600}, start=1_500))
    assert (trimmed[BUSY].start_offset, trimmed[BUSY].count) == (1_500, 100)
