"""Effects in words, for the replay of a seed: elections and logs, not each fetch."""

from penstock.raft.effects import (
    Answer,
    AppendVoters,
    Became,
    Committed,
    Effect,
    InstallSnapshot,
    Persist,
    Send,
    Truncate,
)
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchReply,
    Reply,
    Request,
    VoteReply,
    VoteRequest,
)


def described(effect: Effect) -> str | None:
    """None for what a reader can do without."""
    match effect:
        case Became():
            leader = "none known" if effect.leader_id is None else f"node {effect.leader_id}"
            return f"becomes {effect.role} in epoch {effect.epoch}, leader {leader}"
        case Persist():
            return f"persists epoch {effect.state.epoch}, vote {effect.state.voted}"
        case Send():
            text = _request(effect.request)
            return None if text is None else f"asks node {effect.to}: {text}"
        case Answer():
            return _reply(effect.reply)
        case Truncate():
            return f"truncates its log to {effect.offset}"
        case AppendVoters():
            return f"appends the voters {effect.voters}"
        case InstallSnapshot():
            return f"installs the snapshot of {effect.snapshot.offset} records"
        case Committed():
            return f"knows {effect.offset} records to be committed"
        case _:
            return None


def _request(request: Request) -> str | None:
    match request:
        case VoteRequest():
            kind = "pre-vote" if request.pre_vote else "vote"
            at = request.log_end
            return f"{kind} in epoch {request.epoch}, log ends at {at.offset} of epoch {at.epoch}"
        case BeginEpochRequest():
            return f"begin epoch {request.epoch}"
        case EndEpochRequest():
            successors = " ".join(str(key.node_id) for key in request.successors)
            return f"end epoch {request.epoch}, successors {successors}"
        case _:
            return None


def _reply(reply: Reply) -> str | None:
    match reply:
        case VoteReply():
            error = "" if reply.error is None else f" ({reply.error.value})"
            return f"{'grants' if reply.granted else 'refuses'} in epoch {reply.epoch}{error}"
        case FetchReply() if reply.diverging is not None:
            at = reply.diverging
            return f"replies that the logs diverge: epoch {at.epoch} ends at {at.offset}"
        case _:
            return None
