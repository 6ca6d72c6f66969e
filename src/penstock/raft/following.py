"""The fetching side: how a replica finds the leader, and follows its log.

A fetch acks everything below its offset, so it leaves only when the log is durable to its end.
One fetch is under way at a time; a reply to any other is dropped, so that what a reply says always
fits the log as it is.
"""

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.raft.effects import (
    AppendFetched,
    InstallSnapshot,
    StoreSnapshotPart,
    Sync,
    Truncate,
)
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import (
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
)
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.unattached import Unattached
from penstock.raft.state import ReplicaState
from penstock.raft.times import SHORT_WAIT_MS_MAX
from penstock.raft.transitions import commit

ATTEMPTS_ALONE_MAX = 3  # lost elections, until a voter asks the bootstrap servers, too
ASK_INTERVAL_MS = 100  # between two questions for the leader to a voter that knows none


def look_for_leader(state: ReplicaState, now_ms: int) -> None:
    """Asks every voter: whoever leads replies with records, the others say who leads."""
    role = state.role
    assert isinstance(role, Unattached), role
    if not state.log.is_synced:
        return  # a leader takes this fetch, too, for an ack; `synced` comes back here
    nodes = [voter.node_id for voter in state.other_voters]
    if not state.is_voter or role.attempts >= ATTEMPTS_ALONE_MAX:
        nodes += [node for node in state.bootstrap if node not in state.voters.keys]
    for node in nodes:
        if node not in role.asked and role.ask_ms.get(node, now_ms) <= now_ms:
            role.asked[node] = state.send(node, _fetch(state, wait_ms_max=0))


def handle_leader_unknown(
    state: ReplicaState, voter: NodeId, number: int, reply: FetchReply, now_ms: int
) -> None:
    """A voter replied to an unattached replica without naming a leader. Once a majority can be
    reached, waiting is of no use: the first election comes soon.
    """
    role = state.role
    assert isinstance(role, Unattached), role
    if role.asked.get(voter) != number:
        return
    del role.asked[voter]
    role.ask_ms[voter] = now_ms + ASK_INTERVAL_MS
    if voter in state.voters.keys:
        role.reached.add(voter)
    reached = len(role.reached) + 1 >= state.voters.majority
    if reached and state.hurry and role.elect_ms is not None and reply.epoch <= state.epoch:
        state.hurry = False
        role.elect_ms = min(role.elect_ms, now_ms + state.draw(SHORT_WAIT_MS_MAX))


def fetch_next(state: ReplicaState, now_ms: int) -> None:
    role = state.role
    assert isinstance(role, Follower), role
    if role.fetching is not None or role.fetch_ms > now_ms:
        return
    if not state.log.is_synced:
        return  # `synced` comes back here
    if role.snapshot is not None:
        request = FetchSnapshotRequest(
            epoch=state.epoch, replica=state.key, snapshot=role.snapshot, position=role.position
        )
        role.fetching = state.send(role.leader_id, request)
        return
    fetch = _fetch(state, wait_ms_max=state.times.fetch_wait_ms_max)
    role.fetching = state.send(role.leader_id, fetch)


def handle_fetch_reply(state: ReplicaState, number: int, reply: FetchReply, now_ms: int) -> None:
    role = state.role
    if not isinstance(role, Follower) or role.fetching != number:
        return
    role.fetching = None
    if reply.error is not None or reply.epoch != state.epoch:
        role.fetch_ms = now_ms + state.times.retry_backoff_ms
        if reply.error is Refused.NOT_LEADER and reply.epoch == state.epoch:
            lose_leader(state, role, now_ms)  # it has resigned
        return
    _hear(state, role, now_ms)
    if reply.snapshot is not None:
        role.snapshot, role.position = reply.snapshot, 0
    elif reply.diverging is not None:
        _truncate(state, reply.diverging)
    else:
        _append(state, reply)


def handle_snapshot_reply(
    state: ReplicaState, number: int, reply: FetchSnapshotReply, now_ms: int
) -> None:
    role = state.role
    if not isinstance(role, Follower) or role.fetching != number:
        return
    role.fetching = None
    usable = reply.error is None and reply.epoch == state.epoch
    whole = reply.position + reply.length >= reply.size
    if reply.length <= 0 and not whole:
        usable = False  # it would be asked for again and again
    if not usable or reply.snapshot != role.snapshot or reply.position != role.position:
        role.snapshot, role.position = None, 0  # ask again which one there is
        role.fetch_ms = now_ms + state.times.retry_backoff_ms
        return
    _hear(state, role, now_ms)
    state.effects.append(
        StoreSnapshotPart(snapshot=reply.snapshot, position=reply.position, data=reply.data)
    )
    role.position += reply.length
    if not whole:
        return
    role.snapshot, role.position = None, 0
    if reply.snapshot.offset > state.high_watermark:
        state.effects.append(InstallSnapshot(snapshot=reply.snapshot))
        state.log.install(reply.snapshot)
        state.voter_sets.install(reply.snapshot.offset, reply.voters)
        commit(state, reply.snapshot.offset)


def lose_leader(state: ReplicaState, role: Follower, now_ms: int) -> None:
    """The leader has gone: no need to wait for the time-out, the first time. An observer never
    competes with others, so it looks for the next leader at once.
    """
    if not state.may_stand:
        give_up(role, at_ms=now_ms)
    elif state.hurry and not role.lost:
        state.hurry = False
        give_up(role, at_ms=now_ms + state.draw(SHORT_WAIT_MS_MAX))


def give_up(role: Follower, *, at_ms: int) -> None:
    """The leader is not heard any more: it is given up at `at_ms`, or before."""
    role.lost = True
    role.deadline_ms = min(role.deadline_ms, at_ms)


def _fetch(state: ReplicaState, *, wait_ms_max: int) -> FetchRequest:
    return FetchRequest(
        epoch=state.epoch,
        replica=state.key,
        log_end=state.log.last,
        high_watermark=state.high_watermark,
        wait_ms_max=wait_ms_max,
    )


def _hear(state: ReplicaState, role: Follower, now_ms: int) -> None:
    role.heard_ms = now_ms
    role.lost = False
    role.gave_way = False
    role.attempts = 0
    state.hurry = True
    role.deadline_ms = now_ms + state.times.fetch_timeout_ms


def _truncate(state: ReplicaState, leader_end: LogEnd) -> None:
    """To the smaller of both ends of the largest epoch that both know (KIP-595)."""
    own_end = state.log.end_of(leader_end.epoch)
    offset = own_end.offset
    if own_end.epoch == leader_end.epoch:
        offset = Offset(min(offset, leader_end.offset))
    assert offset >= state.high_watermark, (offset, state.high_watermark, leader_end)
    state.effects.append(Truncate(offset=offset))
    state.log.truncate(offset)
    state.voter_sets.truncate(offset)


def _append(state: ReplicaState, reply: FetchReply) -> None:
    if reply.runs:
        state.effects.append(AppendFetched(reply=reply))
        for run in reply.runs:
            state.log.append(run.epoch, run.end_offset)
        for named in reply.voter_sets:
            state.voter_sets.append(named)
        state.effects.append(Sync())
    commit(state, Offset(min(reply.high_watermark, state.log.end_offset)))
