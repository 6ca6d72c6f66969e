"""Replies of every role: each tells the epoch and the leader that the replica knows."""

from penstock.raft.effects import Answer
from penstock.raft.messages import (
    BeginEpochReply,
    BeginEpochRequest,
    EndEpochReply,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
    Reply,
    Request,
    VoteReply,
    VoteRequest,
)
from penstock.raft.state import ReplicaState


def answer(state: ReplicaState, token: object, reply: Reply) -> None:
    state.effects.append(Answer(token=token, reply=reply))


def answer_vote(
    state: ReplicaState, token: object, *, granted: bool, error: Refused | None = None
) -> None:
    reply = VoteReply(epoch=state.epoch, leader_id=state.known_leader, granted=granted, error=error)
    answer(state, token, reply)


def refuse_fetch(state: ReplicaState, token: object, error: Refused) -> None:
    reply = FetchReply(
        epoch=state.epoch,
        leader_id=state.known_leader,
        high_watermark=state.high_watermark,
        error=error,
    )
    answer(state, token, reply)


def refuse(state: ReplicaState, token: object, request: Request, error: Refused) -> None:
    """The refusal of any request."""
    epoch, leader_id = state.epoch, state.known_leader
    match request:
        case VoteRequest():
            answer_vote(state, token, granted=False, error=error)
        case FetchRequest():
            refuse_fetch(state, token, error)
        case BeginEpochRequest():
            answer(state, token, BeginEpochReply(epoch=epoch, leader_id=leader_id, error=error))
        case EndEpochRequest():
            answer(state, token, EndEpochReply(epoch=epoch, leader_id=leader_id, error=error))
        case FetchSnapshotRequest():
            answer(
                state,
                token,
                FetchSnapshotReply(
                    epoch=epoch, leader_id=leader_id, snapshot=request.snapshot, error=error
                ),
            )
