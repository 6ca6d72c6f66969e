"""The quorum as its leader sees it: how far each replica has come, and when it last fetched."""

from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.roles.leader import Leader
from penstock.raft.state import ReplicaState
from penstock.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """None stands for what the leader has not heard yet. Ages count back from now."""

    key: ReplicaKey
    end_offset: Offset | None
    fetched_age_ms: int | None
    caught_up_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]


def describe_quorum(state: ReplicaState, now_ms: int) -> QuorumDescription | None:
    """None where this replica does not lead: only the leader knows."""
    role = state.role
    if not isinstance(role, Leader):
        return None
    return QuorumDescription(
        leader_id=state.key.node_id,
        epoch=state.epoch,
        high_watermark=state.high_watermark,
        voters=tuple(_voter(state, role, key, now_ms) for key in state.voters.keys.values()),
        observers=tuple(
            ReplicaProgress(
                key=key,
                end_offset=known.offset,
                fetched_age_ms=now_ms - known.fetched_ms,
                caught_up_age_ms=_age_ms(
                    None if known.caught_up_ms < 0 else known.caught_up_ms, now_ms
                ),
            )
            for key, known in role.observers.items()
        ),
    )


def _voter(state: ReplicaState, role: Leader, key: ReplicaKey, now_ms: int) -> ReplicaProgress:
    if key.node_id == state.key.node_id:  # it has what it has, now
        return ReplicaProgress(
            key=key, end_offset=state.log.end_offset, fetched_age_ms=0, caught_up_age_ms=0
        )
    heard = key.node_id in role.ends
    return ReplicaProgress(
        key=key,
        end_offset=role.ends.get(key.node_id),
        fetched_age_ms=_age_ms(role.fetched_ms.get(key.node_id) if heard else None, now_ms),
        caught_up_age_ms=_age_ms(role.caught_up_ms.get(key.node_id), now_ms),
    )


def _age_ms(since_ms: int | None, now_ms: int) -> int | None:
    return None if since_ms is None else now_ms - since_ms
