"""What a fetcher learns from increments is what full fetches would tell it."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.error import ErrorCode
from penstock.replication.fetch_session import Fetch, FetchSessions, Finished
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

indexes = st.lists(st.integers(0, 4), max_size=3, unique=True)
steps = st.lists(
    st.tuples(
        indexes,  # added or changed
        indexes,  # forgotten
        st.dictionaries(st.integers(0, 4), st.integers(0, 3)),  # high watermarks that move
    ),
    max_size=30,
)


@given(steps)
def test_increments_add_up_to_the_truth(
    steps: list[tuple[list[int], list[int], dict[int, int]]],
) -> None:
    sessions = FetchSessions(random_below=lambda bound: 0)
    truth = dict.fromkeys(range(5), 0)
    known: dict[int, int] = {}  # what the fetcher has been told
    subscribed: list[int] = []
    session_id, epoch = 0, 0
    for added, forgotten, moved in steps:
        truth.update(moved)
        named = sorted({*subscribed, *added} - set(forgotten)) if epoch == 0 else added
        fetch = sessions.begin(
            _request(session_id, epoch, named, forgotten), by_topic_id=False, now_ms=0
        )
        assert isinstance(fetch, Fetch)
        subscribed = [index for index in {*subscribed, *added} if index not in forgotten]
        sessionless = not fetch.session
        finished = sessions.finish(
            fetch, [_answer(w.asked.partition, truth) for w in fetch.wanted], now_ms=0
        )
        assert isinstance(finished, Finished)
        sessions.check()
        for _, answer in finished.sent:
            known[answer.partition_index] = answer.high_watermark
        if not sessionless:
            assert sorted(w.asked.partition for w in fetch.wanted) == sorted(subscribed)
        session_id = finished.session_id
        epoch = epoch + 1 if session_id else 0
        if session_id:
            assert {index: known[index] for index in subscribed} == {
                index: truth[index] for index in subscribed
            }


few = st.lists(st.integers(0, 1), max_size=2, unique=True)
begun = st.tuples(st.just("begin"), st.sampled_from([None, None, None, -1, 0, 7]), few, few)
ended = st.tuples(st.just("finish"), st.integers(0, 2), st.booleans())


@given(st.lists(st.one_of(begun, ended), max_size=30))
def test_of_fetches_under_way_at_once_the_overtaken_one_is_refused(
    steps: list[tuple[str, int | None, list[int], list[int]] | tuple[str, int, bool]],
) -> None:
    sessions = FetchSessions(random_below=_Counting(), partitions_max=2)
    waiting: list[Fetch] = []
    latest = 0
    for step in steps:
        match step:
            case ("begin", epoch, list(added), list(forgotten)):
                if epoch is None:  # the one that the session expects
                    epoch = sessions.by_id[latest].epoch if latest in sessions.by_id else 0
                asked = _request(latest, epoch, added, forgotten)
                fetch = sessions.begin(asked, by_topic_id=False, now_ms=0)
                if isinstance(fetch, Fetch):
                    waiting.append(fetch)
            case ("finish", int(place), bool(filled)) if place < len(waiting):
                fetch = waiting.pop(place)
                overtaken = fetch.session is not None and fetch.session.epoch != fetch.epoch
                answers = [
                    _answer(wanted.asked.partition, {}, records=b"x" if filled else b"")
                    for wanted in fetch.wanted
                ]
                finished = sessions.finish(fetch, answers, now_ms=0)
                assert (finished == ErrorCode.INVALID_FETCH_SESSION_EPOCH) == overtaken
                if isinstance(finished, Finished) and finished.session_id:
                    latest = finished.session_id
        sessions.check()


class _Counting:
    """Session ids 1, 2, 3... instead of random ones."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, bound: int) -> int:
        return next(self._numbers)


def _request(session_id: int, epoch: int, named: list[int], forgotten: list[int]) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic="t", partitions=[FetchPartition(partition=index) for index in named])
        ],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forgotten)] if epoch else [],
    )


def _answer(index: int, truth: dict[int, int], *, records: bytes = b"") -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=truth.get(index, 0),
        log_start_offset=0,
        records=records,
    )
