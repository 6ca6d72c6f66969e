"""Incremental fetch sessions (KIP-227), as a fetcher sees them."""

from collections.abc import Sequence

import pytest

from penstock.model.error import ErrorCode
from penstock.replication.fetch_session import (
    EPOCH_FIRST,
    EPOCH_MAX,
    EPOCH_NONE,
    EVICTION_MS,
    NO_SESSION,
    Fetch,
    FetchSessions,
    Finished,
    next_epoch,
)
from penstock.security.principal import Principal
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ID = bytes(15) + b"\x07"
MALLORY = Principal("User", "mallory")


class Counting:
    """Session ids 1, 2, 3... instead of random ones."""

    def __init__(self) -> None:
        self.last = -1

    def __call__(self, bound: int) -> int:
        self.last += 1
        return self.last


def sessions_of(sessions_max: int = 10, partitions_max: int = 100) -> FetchSessions:
    return FetchSessions(
        random_below=Counting(), sessions_max=sessions_max, partitions_max=partitions_max
    )


def request(
    *partitions: int,
    session_id: int = NO_SESSION,
    epoch: int = 0,
    forgotten: Sequence[int] = (),
    offset: int = 0,
) -> FetchRequest:
    asked = [FetchPartition(partition=index, fetch_offset=offset) for index in partitions]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", topic_id=ID, partitions=asked)] if asked else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", topic_id=ID, partitions=list(forgotten))],
    )


def answer(index: int, *, high: int = 5, start: int = 0, records: bytes = b"", error: int = 0):  # type: ignore[no-untyped-def]
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high,
        log_start_offset=start,
        records=records,
        aborted_transactions=None,
    )


def begin(
    sessions: FetchSessions, asked: FetchRequest, *, now_ms: int = 0, ids: bool = False
) -> Fetch:
    fetch = sessions.begin(asked, by_topic_id=ids, now_ms=now_ms)
    assert isinstance(fetch, Fetch), fetch
    return fetch


def finish(sessions: FetchSessions, fetch: Fetch, *, now_ms: int = 0, **sent: object) -> Finished:
    answers = [answer(wanted.asked.partition, **sent) for wanted in fetch.wanted]
    finished = sessions.finish(fetch, answers, now_ms=now_ms)
    assert isinstance(finished, Finished), finished
    sessions.check()
    return finished


def open_session(sessions: FetchSessions, *partitions: int, now_ms: int = 0) -> int:
    fetch = begin(sessions, request(*partitions), now_ms=now_ms)
    return finish(sessions, fetch, now_ms=now_ms).session_id


def partitions_told(finished: Finished) -> list[int]:
    return [sent.partition_index for _, sent in finished.sent]


def test_a_full_fetch_opens_a_session_and_tells_everything() -> None:
    sessions = sessions_of()
    finished = finish(sessions, begin(sessions, request(0, 1, 2)))
    assert finished.session_id != NO_SESSION
    assert partitions_told(finished) == [0, 1, 2]


def test_a_fetch_without_session_opens_none_and_closes_the_one_it_names() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    finished = finish(sessions, begin(sessions, request(0, session_id=session_id, epoch=-1)))
    assert finished.session_id == NO_SESSION
    assert partitions_told(finished) == [0]
    assert not sessions.by_id


def test_an_incremental_fetch_reads_all_and_tells_only_what_changed() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0, 1, 2)
    fetch = begin(sessions, request(session_id=session_id, epoch=1))
    assert [wanted.asked.partition for wanted in fetch.wanted] == [0, 1, 2]
    answers = [answer(0), answer(1, high=6), answer(2, start=1)]
    finished = sessions.finish(fetch, answers, now_ms=0)
    assert isinstance(finished, Finished)
    assert finished.session_id == session_id
    assert partitions_told(finished) == [1, 2]


def test_an_answer_that_was_not_built_is_not_told() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0, 1)
    fetch = begin(sessions, request(session_id=session_id, epoch=1))
    assert fetch.wanted[0].is_sent(high_watermark=5, start_offset=0)
    finished = sessions.finish(fetch, [None, answer(1, high=9)], now_ms=0)
    assert isinstance(finished, Finished)
    assert partitions_told(finished) == [1]


def test_an_error_is_told_each_time_and_so_is_its_end() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    for epoch in (1, 2):
        fetch = begin(sessions, request(session_id=session_id, epoch=epoch))
        assert partitions_told(finish(sessions, fetch, error=3)) == [0]
    fetch = begin(sessions, request(session_id=session_id, epoch=3))
    assert partitions_told(finish(sessions, fetch)) == [0]
    fetch = begin(sessions, request(session_id=session_id, epoch=4))
    assert partitions_told(finish(sessions, fetch)) == []


def test_a_partition_that_was_sent_data_goes_to_the_end_of_the_queue() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0, 1, 2)
    fetch = begin(sessions, request(session_id=session_id, epoch=1))
    answers = [answer(0, records=b"x"), answer(1), answer(2)]
    assert isinstance(sessions.finish(fetch, answers, now_ms=0), Finished)
    fetch = begin(sessions, request(session_id=session_id, epoch=2))
    assert [wanted.asked.partition for wanted in fetch.wanted] == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0, 1)
    changed = request(1, 2, session_id=session_id, epoch=1, forgotten=[0], offset=44)
    fetch = begin(sessions, changed)
    asked = {wanted.asked.partition: wanted.asked.fetch_offset for wanted in fetch.wanted}
    assert asked == {1: 44, 2: 44}
    sessions.check()


def test_a_session_without_partitions_ends() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    fetch = begin(sessions, request(session_id=session_id, epoch=1, forgotten=[0]))
    assert finish(sessions, fetch).session_id == NO_SESSION
    assert not sessions.by_id
    assert sessions.partition_count == 0


def test_an_unknown_session_is_not_found() -> None:
    sessions = sessions_of()
    asked = request(session_id=99, epoch=1)
    found = sessions.begin(asked, by_topic_id=False, now_ms=0)
    assert found == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [1, 7, EPOCH_MAX])
def test_a_session_of_another_principal_is_not_found(epoch: int) -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    asked = request(session_id=session_id, epoch=epoch)
    found = sessions.begin(asked, by_topic_id=False, now_ms=0, principal=MALLORY)
    assert found == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    finish(sessions, begin(sessions, request(session_id=session_id, epoch=1)))


@pytest.mark.parametrize("epoch", [EPOCH_NONE, EPOCH_FIRST])
def test_a_session_of_another_principal_is_not_closed(epoch: int) -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    asked = request(1, session_id=session_id, epoch=epoch)
    own = sessions.begin(asked, by_topic_id=False, now_ms=0, principal=MALLORY)
    assert isinstance(own, Fetch)
    finish(sessions, own)
    finish(sessions, begin(sessions, request(session_id=session_id, epoch=1)))


def test_a_session_goes_on_over_another_connection_of_its_principal() -> None:
    sessions = sessions_of()
    asked = request(0)
    fetch = sessions.begin(asked, by_topic_id=False, now_ms=0, principal=MALLORY)
    assert isinstance(fetch, Fetch)
    session_id = finish(sessions, fetch).session_id
    again = request(session_id=session_id, epoch=1)
    same = Principal.parse(str(MALLORY))
    assert isinstance(sessions.begin(again, by_topic_id=False, now_ms=0, principal=same), Fetch)


def test_a_request_out_of_turn_is_refused_and_the_session_lives_on() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    asked = request(session_id=session_id, epoch=2)
    found = sessions.begin(asked, by_topic_id=False, now_ms=0)
    assert found == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    finish(sessions, begin(sessions, request(session_id=session_id, epoch=1)))


def test_a_fetch_that_was_overtaken_while_it_waited_is_refused() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    waiting = begin(sessions, request(session_id=session_id, epoch=1))
    begin(sessions, request(session_id=session_id, epoch=2))
    late = sessions.finish(waiting, [answer(0)], now_ms=0)
    assert late == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_by_name_cannot_go_on_by_topic_id() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    asked = request(session_id=session_id, epoch=1)
    found = sessions.begin(asked, by_topic_id=True, now_ms=0)
    assert found == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_by_topic_id_the_name_does_not_matter() -> None:
    sessions = sessions_of()
    fetch = begin(sessions, request(0), ids=True)
    assert fetch.wanted[0].key == (ID, 0)
    session_id = finish(sessions, fetch).session_id
    again = begin(sessions, request(session_id=session_id, epoch=1), ids=True)
    assert again.wanted[0].topic_id == ID


def test_a_partition_named_twice_is_read_once_as_asked_last() -> None:
    twice = request(3, 3)
    twice.topics[0].partitions[1].fetch_offset = 17
    fetch = begin(sessions_of(), twice)
    assert [wanted.asked.fetch_offset for wanted in fetch.wanted] == [17]


def test_session_epochs_go_round_without_passing_zero() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(EPOCH_MAX) == 1


def test_where_there_is_no_room_a_fetch_is_served_without_a_session() -> None:
    sessions = sessions_of(sessions_max=1)
    assert open_session(sessions, 0) != NO_SESSION
    assert open_session(sessions, 0, 1, 2) == NO_SESSION


def test_a_stale_session_makes_room() -> None:
    sessions = sessions_of(sessions_max=1)
    first = open_session(sessions, 0)
    second = open_session(sessions, 0, now_ms=EVICTION_MS + 1)
    assert second != NO_SESSION
    assert list(sessions.by_id) == [second]
    assert first != second
    assert sessions.evicted_count == 1


def test_an_old_session_in_use_gives_way_to_a_larger_one_only() -> None:
    sessions = sessions_of(sessions_max=1)
    session_id = open_session(sessions, 0, 1)
    later = EVICTION_MS + 1
    begin(sessions, request(session_id=session_id, epoch=1), now_ms=later)
    assert open_session(sessions, 0, 1, now_ms=later + 1) == NO_SESSION
    assert open_session(sessions, 0, 1, 2, now_ms=later + 1) != NO_SESSION
    assert session_id not in sessions.by_id


def test_all_sessions_together_remember_a_bounded_number_of_partitions() -> None:
    sessions = sessions_of(partitions_max=4)
    session_id = open_session(sessions, 0, 1, 2)
    assert open_session(sessions, 0, 1) == NO_SESSION
    asked = request(3, 4, session_id=session_id, epoch=1)
    found = sessions.begin(asked, by_topic_id=False, now_ms=0)
    assert found == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partition_count == 0


def test_a_fetch_overtaken_by_the_one_that_ends_its_session_is_refused() -> None:
    sessions = sessions_of()
    session_id = open_session(sessions, 0)
    waiting = begin(sessions, request(session_id=session_id, epoch=1))
    begin(sessions, request(session_id=session_id, epoch=2, forgotten=[0]))
    sent = sessions.finish(waiting, [answer(0, records=b"x")], now_ms=0)
    assert sent == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_stale_sessions_make_room_for_partitions_as_they_do_for_sessions() -> None:
    sessions = sessions_of(partitions_max=6)
    open_session(sessions, 0, 1)
    open_session(sessions, 2, 3, now_ms=1)
    recent = open_session(sessions, 4, now_ms=EVICTION_MS)
    later = EVICTION_MS + 2
    opened = open_session(sessions, 0, 1, 2, now_ms=later)
    assert opened != NO_SESSION
    # Only as many went as had to, the oldest first.
    assert len(sessions.by_id) == 3
    assert sessions.evicted_count == 1
    assert open_session(sessions, 5, 6, 7, now_ms=later) == NO_SESSION  # two are in use
    assert list(sessions.by_id) == [recent, opened]


def test_a_session_that_could_never_fit_evicts_nobody() -> None:
    sessions = sessions_of(partitions_max=3)
    kept = open_session(sessions, 0, 1)
    assert open_session(sessions, 0, 1, 2, 3, now_ms=EVICTION_MS + 1) == NO_SESSION
    assert list(sessions.by_id) == [kept]
