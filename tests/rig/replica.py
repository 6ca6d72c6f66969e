"""One replica of the metadata log by itself: values go in, effects come out.

A node's directory id is its number sixteen times. Random waits are the longest that are possible,
unless a test says otherwise.
"""

from typing import TypeVar

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import Answer, AnswerFetch, Effect, HardState, Send
from penstock.raft.log_ends import LogEnd, LogEnds
from penstock.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    Reply,
    Request,
    Run,
    VoteReply,
    VoteRequest,
)
from penstock.raft.replica import Replica
from penstock.raft.times import Draw, Times
from penstock.raft.voter_history import VotersAt
from penstock.raft.voters import ReplicaKey, VoterSet

TIMES = Times()

OneEffect = TypeVar("OneEffect")
OneRequest = TypeVar("OneRequest")


def longest(below: int) -> int:
    return below - 1


def shortest(below: int) -> int:
    return 0


def key(node: int) -> ReplicaKey:
    return ReplicaKey(NodeId(node), bytes([node]) * 16)


def end(epoch: int, offset: int) -> LogEnd:
    return LogEnd(LeaderEpoch(epoch), Offset(offset))


def log_of(*epochs: int, synced: int | None = None) -> LogEnds:
    """A log with one record for each epoch named, durable up to `synced` or to its end."""
    log = LogEnds()
    for offset, epoch in enumerate(epochs):
        log.append(LeaderEpoch(epoch), Offset(offset + 1))
        if synced is None or offset < synced:
            log.begin_sync()
            log.end_sync()
    return log


class Lone:
    """A replica that has started, without its quorum. `now_ms` is the time of the next call."""

    def __init__(
        self,
        node: int = 1,
        *,
        voters: int = 3,
        with_directories: bool = True,
        epoch: int = 0,
        leader: int | None = None,
        voted: ReplicaKey | None = None,
        log: LogEnds | None = None,
        draw: Draw = longest,
    ) -> None:
        keys = [key(one) for one in range(1, voters + 1)]
        if not with_directories:
            keys = [ReplicaKey(one.node_id, None) for one in keys]
        self.replica = Replica(
            key=key(node),
            voters=VoterSet(keys),
            times=TIMES,
            draw=draw,
            hard=HardState(
                epoch=LeaderEpoch(epoch),
                leader_id=None if leader is None else NodeId(leader),
                voted=voted,
            ),
            log=log or LogEnds(),
            # The log names its voters already, so that an epoch begins with one record.
            stored_voters=[VotersAt(offset=Offset(0), voters=VoterSet(keys))],
        )
        self.now_ms = 0
        self.replica.start(self.now_ms)
        self.effects = self.replica.take_effects()

    @property
    def role(self) -> str:
        return self.replica.state.role.name

    def take(self) -> list[Effect]:
        """Effects of the last call, which are kept in `effects`."""
        self.replica.check()
        self.effects = self.replica.take_effects()
        return self.effects

    def tick(self, now_ms: int) -> list[Effect]:
        self.now_ms = now_ms
        self.replica.tick(now_ms)
        return self.take()

    def wait_until_due(self) -> list[Effect]:
        due_ms = self.replica.next_deadline_ms()
        assert due_ms is not None
        return self.tick(due_ms)

    def receive(self, request: Request) -> list[Effect]:
        self.replica.receive(request, "token", self.now_ms)
        return self.take()

    def ask(self, request: Request) -> Reply:
        """The one reply that a request gets at once."""
        self.receive(request)
        (reply,) = replies(self.effects)
        return reply

    def reply_to(self, send: Send, reply: Reply) -> list[Effect]:
        self.replica.receive_reply(send.to, send.number, reply, self.now_ms)
        return self.take()

    def fail(self, send: Send) -> list[Effect]:
        self.replica.failed(send.to, send.number, self.now_ms)
        return self.take()

    def refuse(self, node: int) -> list[Effect]:
        self.replica.leader_refused(NodeId(node), self.now_ms)
        return self.take()

    def append(self, records: int = 1) -> list[Effect]:
        self.replica.appended(Offset(self.replica.state.log.end_offset + records))
        return self.take()

    def sync(self) -> list[Effect]:
        """All of the log is durable."""
        self.replica.begin_sync()
        self.replica.synced(self.now_ms)
        return self.take()


def leader(node: int = 1, *, voters: int = 3, **about: object) -> Lone:
    """A replica that has just won an election, in epoch 1 unless told otherwise. Its leader-change
    record is appended and not durable yet.
    """
    lone = Lone(node, voters=voters, **about)  # type: ignore[arg-type]  # as Lone takes them
    while not lone.replica.leads:
        sends = requests(lone.wait_until_due(), VoteRequest)
        for send in sends:
            granted = VoteReply(epoch=lone.replica.epoch, leader_id=None, granted=True)
            if not lone.replica.leads:
                kept = lone.reply_to(send, granted)
                sends += requests(kept, VoteRequest)
    return lone


def follower(node: int = 2, *, of: int = 1, epoch: int = 1, **about: object) -> Lone:
    """A replica that has been told who leads; `effects` has its first fetch."""
    lone = Lone(node, epoch=epoch, **about)  # type: ignore[arg-type]  # as Lone takes them
    lone.receive(begin_epoch(epoch, of, to=node))
    return lone


def replies(effects: list[Effect]) -> list[Reply]:
    return [one.reply for one in effects if isinstance(one, Answer | AnswerFetch)]


def all_of(effects: list[Effect], kind: type[OneEffect]) -> list[OneEffect]:
    return [one for one in effects if isinstance(one, kind)]


def requests(effects: list[Effect], kind: type[OneRequest]) -> list[Send]:
    """Requests of one kind that are sent."""
    return [one for one in all_of(effects, Send) if isinstance(one.request, kind)]


def vote(
    epoch: int, candidate: int, *, to: int, log_end: LogEnd | None = None, pre_vote: bool = False
) -> VoteRequest:
    return VoteRequest(
        epoch=LeaderEpoch(epoch),
        candidate=key(candidate),
        voter=key(to),
        log_end=log_end or end(0, 0),
        pre_vote=pre_vote,
    )


def begin_epoch(epoch: int, leader_id: int, *, to: int) -> BeginEpochRequest:
    return BeginEpochRequest(epoch=LeaderEpoch(epoch), leader_id=NodeId(leader_id), voter=key(to))


def end_epoch(epoch: int, leader_id: int, *successors: int) -> EndEpochRequest:
    return EndEpochRequest(
        epoch=LeaderEpoch(epoch),
        leader_id=NodeId(leader_id),
        successors=tuple(key(one) for one in successors),
    )


def fetch(
    epoch: int, replica: int, at: LogEnd, *, watermark: int | None = None, wait_ms_max: int = 0
) -> FetchRequest:
    return FetchRequest(
        epoch=LeaderEpoch(epoch),
        replica=key(replica),
        log_end=at,
        high_watermark=None if watermark is None else Offset(watermark),
        wait_ms_max=wait_ms_max,
    )


def fetched(epoch: int, leader_id: int, *runs: tuple[int, int], watermark: int = 0) -> FetchReply:
    """A leader's reply; each run is an epoch and its end."""
    return FetchReply(
        epoch=LeaderEpoch(epoch),
        leader_id=NodeId(leader_id),
        high_watermark=Offset(watermark),
        runs=tuple(Run(epoch=LeaderEpoch(one), end_offset=Offset(at)) for one, at in runs),
    )
