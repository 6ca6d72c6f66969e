"""Fetches of followers from bytes to bytes: those that continue a session.

They are most of them. `wire/replica_fetch` reads this one shape of a request and writes the reply
to it, without building messages; the rules are those of `FollowerFetch`, as for the messages of
`broker/request/follower_by_message`, and the tests of both are the same ones.
"""

from penstock.broker.request.follower_fetch import CONSUMER, FollowerFetch
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.limit import ENTRIES_PER_TURN, FETCH_PARTITIONS_MAX
from penstock.replication.fetch_session import EPOCH_FIRST
from penstock.security.acl.authorizer import Access
from penstock.security.acl.words import AclOperation
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.replica_fetch import read_replica_fetch


def answer_follower(
    services: Services,
    frame: memoryview,
    listener: str,
    received_ms: int,
    access: Access | None = None,
) -> Parts | PendingReply | None:
    """A fetch of a follower that continues its session, from bytes to bytes; None for any other.

    The rules are those of `serve_follower`: whatever needs more is left to it, and what went wrong
    is told in its words.
    """
    request = read_replica_fetch(frame, count_max=ENTRIES_PER_TURN)
    if request is None or request.node <= CONSUMER or request.session_epoch <= EPOCH_FIRST:
        return None
    if access is not None and not access.may_cluster(AclOperation.CLUSTER_ACTION):
        return None
    sessions = services.follower_sessions
    node = NodeId(request.node)
    known = sessions.by_node.get(node)
    if known is None or len(known.partitions) + len(request.named) > FETCH_PARTITIONS_MAX:
        return None
    fetch = FollowerFetch(
        services,
        node,
        broker_epoch=request.broker_epoch,
        bytes_max=request.bytes_max,
        bytes_min=request.bytes_min,
        correlation_id=request.correlation_id,
        version=request.version,
        listener=listener,
        received_ms=received_ms,
        is_direct=True,
    )
    if not fetch.is_of_registered_process:
        return None
    session = sessions.continued(
        node, session_id=request.session_id, epoch=request.session_epoch, by_topic_id=True
    )
    if isinstance(session, ErrorCode):
        fetch.response = FetchResponse(error_code=session)
        return fetch.encoded()
    fetch.session = session
    session.fetched_ms = received_ms
    named = [session.name_position(position) for position in request.named]
    for followed in named:
        fetch.note(followed)
    is_answered = fetch.answer_or_wait(
        session_epoch=request.session_epoch, wait_ms_max=request.wait_ms_max, named=named
    )
    return fetch.encoded() if is_answered else fetch
