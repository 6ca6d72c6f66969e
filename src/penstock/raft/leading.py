"""The leader's side: fetches of the others, what they commit, and who does not fetch any more."""

from penstock.model.identity import NodeId
from penstock.model.limit import QUORUM_OBSERVERS_MAX
from penstock.model.offset import Offset
from penstock.raft.effects import AnswerFetch, AnswerSnapshot
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotRequest,
    Refused,
)
from penstock.raft.replies import answer, refuse, refuse_fetch
from penstock.raft.roles.leader import Leader, ReplicaEnd, WaitingFetch
from penstock.raft.roles.resigned import Resigned
from penstock.raft.state import ReplicaState
from penstock.raft.transitions import become_resigned, commit


def handle_fetch(state: ReplicaState, request: FetchRequest, token: object, now_ms: int) -> None:
    error = _leader_error(state, request)
    if error is not None:
        return refuse_fetch(state, token, error)
    role = state.role
    assert isinstance(role, Leader)
    voter = state.voters.includes(request.replica)
    if voter:
        role.fetched_ms[request.replica.node_id] = now_ms
    reply = _reply(state)
    at = request.log_end
    if _needs_snapshot(state, at):
        reply.snapshot = state.log.snapshot
        return answer(state, token, reply)
    end = state.log.end_of(at.epoch)
    if at.offset > 0 and (end.epoch != at.epoch or end.offset < at.offset):
        reply.diverging = end
        return answer(state, token, reply)
    _note(state, role, request, now_ms)
    # Whoever has gone meanwhile is kept as long: no replica waits for longer than it needs to.
    wait_ms = min(max(0, request.wait_ms_max), state.times.fetch_timeout_ms)
    waiting = WaitingFetch(token=token, request=request, deadline_ms=now_ms + wait_ms)
    resigned = state.role is not role  # its removal is committed: the follower hears of that
    if resigned or _has_news(state, request) or request.wait_ms_max <= 0:
        return _answer(state, waiting)
    role.waiting.append(waiting)
    return None


def handle_fetch_snapshot(
    state: ReplicaState, request: FetchSnapshotRequest, token: object, now_ms: int
) -> None:
    error = _leader_error(state, request)
    if error is not None:
        return refuse(state, token, request, error)
    role = state.role
    assert isinstance(role, Leader)
    if state.voters.includes(request.replica):
        role.fetched_ms[request.replica.node_id] = now_ms
    state.effects.append(
        AnswerSnapshot(token=token, epoch=state.epoch, leader_id=state.key.node_id, request=request)
    )
    return None


def own_log_grew(state: ReplicaState) -> None:
    """Records were appended here: whoever waits for records has some."""
    role = state.role
    if isinstance(role, Leader):
        _answer_news(state, role)


def own_log_synced(state: ReplicaState, now_ms: int) -> None:
    """The leader's own copy counts as far as it is durable."""
    role = state.role
    if isinstance(role, Leader):
        if state.is_voter:
            role.ends[state.key.node_id] = state.log.synced_offset
            role.caught_up_ms[state.key.node_id] = now_ms
        _advance(state, role, now_ms)


def resign_if_left(state: ReplicaState, now_ms: int) -> None:
    """A leader that a majority does not fetch from resigns (check quorum). This comes before
    anything else that a replica does after a pause: what waits for it may be long out of date.
    """
    role = state.role
    if isinstance(role, Leader):
        until_ms = role.quorum_until_ms(state.times.check_quorum_ms)
        if until_ms is not None and now_ms >= until_ms:
            become_resigned(state, now_ms, for_good=False)


def expire_fetches(state: ReplicaState, role: Leader, now_ms: int) -> None:
    expired = [one for one in role.waiting if one.deadline_ms <= now_ms]
    if expired:
        role.waiting = [one for one in role.waiting if one.deadline_ms > now_ms]
        for waiting in expired:
            _answer(state, waiting)


def remind_voters(state: ReplicaState, role: Leader, now_ms: int) -> None:
    """BeginEpoch to voters that do not fetch, until they do."""
    for voter in state.other_voters:
        node = voter.node_id
        if node in role.reminded or role.remind_ms[node] > now_ms:
            continue
        silent_ms = now_ms - role.fetched_ms[node]
        begun = role.ends.get(node) is not None
        if begun and silent_ms < state.times.begin_epoch_ms:
            role.remind_ms[node] = role.fetched_ms[node] + state.times.begin_epoch_ms
            continue
        role.reminded[node] = state.send(
            node,
            BeginEpochRequest(epoch=state.epoch, leader_id=state.key.node_id, voter=voter),
        )


def say_farewell(state: ReplicaState, role: Resigned, now_ms: int) -> None:
    """EndEpoch to the voters that do not know of it yet."""
    for node, remind_ms in role.remind_ms.items():
        if node not in role.reminded and remind_ms <= now_ms:
            request = EndEpochRequest(
                epoch=state.epoch, leader_id=state.key.node_id, successors=role.successors
            )
            role.reminded[node] = state.send(node, request)


def handle_reminded(
    state: ReplicaState, node: NodeId, number: int, *, done: bool, now_ms: int
) -> None:
    """A BeginEpoch or EndEpoch was answered, or has failed."""
    role = state.role
    if not isinstance(role, Leader | Resigned) or role.reminded.get(node) != number:
        return
    del role.reminded[node]
    if isinstance(role, Resigned) and done:
        del role.remind_ms[node]
        return
    wait_ms = state.times.begin_epoch_ms if done else state.times.retry_backoff_ms
    role.remind_ms[node] = now_ms + wait_ms


def _leader_error(
    state: ReplicaState, request: FetchRequest | FetchSnapshotRequest
) -> Refused | None:
    if request.epoch < state.epoch:
        return Refused.FENCED_LEADER_EPOCH
    if request.epoch > state.epoch:
        return Refused.UNKNOWN_LEADER_EPOCH
    if not isinstance(state.role, Leader):
        return Refused.NOT_LEADER
    if request.replica.node_id == state.key.node_id:
        return Refused.INVALID_REQUEST
    if isinstance(request, FetchRequest) and min(request.log_end) < 0:
        return Refused.INVALID_REQUEST
    return None


def _needs_snapshot(state: ReplicaState, at: LogEnd) -> bool:
    """Whether the log does not reach back to where a follower stands."""
    log = state.log
    if log.start_offset == 0:
        return False
    first_epoch = log.epochs[0][0]
    return at.offset < log.start_offset or at.epoch < first_epoch


def _reply(state: ReplicaState) -> FetchReply:
    return FetchReply(
        epoch=state.epoch, leader_id=state.key.node_id, high_watermark=state.high_watermark
    )


def _answer(state: ReplicaState, waiting: WaitingFetch) -> None:
    state.effects.append(
        AnswerFetch(
            token=waiting.token,
            reply=_reply(state),
            from_offset=waiting.request.log_end.offset,
        )
    )


def _has_news(state: ReplicaState, request: FetchRequest) -> bool:
    """Records, or a watermark that the follower does not know (KIP-1166)."""
    if state.log.end_offset > request.log_end.offset:
        return True
    return request.high_watermark is not None and state.high_watermark > request.high_watermark


def _answer_news(state: ReplicaState, role: Leader) -> None:
    news = [one for one in role.waiting if _has_news(state, one.request)]
    if news:
        role.waiting = [one for one in role.waiting if not _has_news(state, one.request)]
        for waiting in news:
            _answer(state, waiting)


def _note(state: ReplicaState, role: Leader, request: FetchRequest, now_ms: int) -> None:
    """A fetch acks what is below its offset. A lower one than before is believed: it is safe."""
    offset = request.log_end.offset
    key = request.replica
    if state.voters.includes(key):
        role.ends[key.node_id] = offset
        if offset >= state.log.end_offset:
            role.caught_up_ms[key.node_id] = now_ms
        _advance(state, role, now_ms)
        return
    known = role.observers.pop(key, None)
    caught_up = offset >= state.log.end_offset
    caught_up_ms = now_ms if caught_up else -1 if known is None else known.caught_up_ms
    role.observers[key] = ReplicaEnd(offset=offset, fetched_ms=now_ms, caught_up_ms=caught_up_ms)
    if len(role.observers) > QUORUM_OBSERVERS_MAX:
        del role.observers[next(iter(role.observers))]


def _advance(state: ReplicaState, role: Leader, now_ms: int) -> None:
    offset = role.commit_offset()
    if offset is not None and offset > state.high_watermark:
        commit(state, Offset(offset))
        _answer_news(state, role)
        if not state.is_voter and state.high_watermark > state.voter_sets.latest.offset:
            become_resigned(state, now_ms, for_good=False)  # its own removal is committed
