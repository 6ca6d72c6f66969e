"""Fetches of followers as messages: any of them, and the first of a session.

`serve_follower` turns a request into a `FollowerFetch`, which holds the rules. Most fetches of a
session that is open do not come here: `broker/request/follower_by_bytes` answers them.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from penstock.broker.request.context import RequestContext
from penstock.broker.request.follower_fetch import CONSUMER, NO_BROKER_EPOCH, FollowerFetch
from penstock.broker.request.pending_reply import PendingReply, when_filled
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.replication.fetch_session import EPOCH_FIRST, EPOCH_NONE
from penstock.replication.follower_session import Followed
from penstock.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC_IDS_FROM: Final = 13


def follower_of(request: FetchRequest) -> NodeId | None:
    """The node that fetches as a follower; None when a consumer does."""
    state = request.replica_state
    if state is not None and state.replica_id > CONSUMER:
        return NodeId(state.replica_id)
    return NodeId(request.replica_id) if request.replica_id > CONSUMER else None


def is_of_consumer(request: FetchRequest) -> bool:
    return follower_of(request) is None


def serve_follower(
    services: Services, request: FetchRequest, context: RequestContext, node: NodeId
) -> FetchResponse | PendingReply | Awaitable[FetchResponse]:
    version = context.header.api_version
    sessions = services.follower_sessions
    state = request.replica_state
    fetch = FollowerFetch(
        services,
        node,
        broker_epoch=NO_BROKER_EPOCH if state is None else state.replica_epoch,
        bytes_max=request.max_bytes,
        bytes_min=request.min_bytes,
        correlation_id=context.header.correlation_id,
        version=version,
        listener=context.listener,
        received_ms=context.received_ms,
    )
    if not fetch.is_of_registered_process and request.session_epoch not in (
        EPOCH_NONE,
        EPOCH_FIRST,
    ):
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    session = sessions.begin(request, node, by_topic_id=version >= TOPIC_IDS_FROM)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    fetch.session = session
    session.fetched_ms = context.received_ms
    session.forget(request)
    if sum(len(topic.partitions) for topic in request.topics) > ENTRIES_PER_TURN:
        return _by_turns(fetch, request)
    named = [session.name(topic, asked) for topic in request.topics for asked in topic.partitions]
    for followed in named:
        fetch.note(followed)
    is_answered = fetch.answer_or_wait(
        session_epoch=request.session_epoch, wait_ms_max=request.max_wait_ms, named=named
    )
    return fetch.response if is_answered else fetch


async def _by_turns(fetch: FollowerFetch, request: FetchRequest) -> FetchResponse:
    """Many partitions are named: the loop gets its turn between some hundred and the next. When the
    session is closed meanwhile, nothing more is noted in it: nobody would take that back.
    """
    named: list[Followed] = []
    session = fetch.session
    session.is_noting = True
    try:
        for topic in request.topics:
            for asked in topic.partitions:
                followed = session.name(topic, asked)
                fetch.note(followed)
                named.append(followed)
                if len(named) % ENTRIES_PER_TURN == 0:
                    await asyncio.sleep(0)
                    if session.is_closed:
                        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        is_answered = fetch.answer_or_wait(
            session_epoch=request.session_epoch,
            wait_ms_max=request.max_wait_ms,
            named=named,
            encoded=False,
        )
    except asyncio.CancelledError:
        fetch.sessions.give_up(session)
        raise
    finally:
        session.is_noting = False
    if not is_answered:
        await when_filled(fetch)
    return fetch.response
