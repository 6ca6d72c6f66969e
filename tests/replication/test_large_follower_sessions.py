"""The session of a follower does not grow without bound."""

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.limit import FETCH_PARTITIONS_MAX
from penstock.replication.follower_session import FollowerSession, FollowerSessions
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FOLLOWER = NodeId(2)
HALF = FETCH_PARTITIONS_MAX // 2
TOPIC_ID = bytes(15) + b"t"


def fetch(session: FollowerSession, *, first: int, count: int) -> FetchRequest:
    """The next fetch of the session; it names so many partitions."""
    named = [FetchPartition(partition=index) for index in range(first, first + count)]
    return FetchRequest(
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=named)],
    )


def begin(sessions: FollowerSessions, request: FetchRequest) -> FollowerSession | ErrorCode:
    """As the shell does: what is named is part of the session from then on."""
    session = sessions.begin(request, FOLLOWER, by_topic_id=True)
    if isinstance(session, FollowerSession):
        for topic in request.topics:
            for asked in topic.partitions:
                session.name(topic, asked)
    return session


def opened(sessions: FollowerSessions, *, count: int) -> FollowerSession:
    session = begin(
        sessions, fetch(FollowerSession(FOLLOWER, by_topic_id=True), first=0, count=count)
    )
    assert isinstance(session, FollowerSession)
    sessions.opened(session, random_below=lambda _: 7)
    return session


def test_a_session_with_too_many_partitions_ends() -> None:
    sessions = FollowerSessions()
    session = opened(sessions, count=HALF)
    assert begin(sessions, fetch(session, first=HALF, count=HALF)) is session
    too_many = fetch(session, first=2 * HALF, count=1)
    assert begin(sessions, too_many) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not sessions.by_node
    assert not session.partitions


def test_partitions_of_the_session_may_be_named_again_however_many_they_are() -> None:
    sessions = FollowerSessions()
    session = opened(sessions, count=HALF + 1)
    assert begin(sessions, fetch(session, first=0, count=HALF + 1)) is session
    assert len(session.partitions) == HALF + 1
