"""A member of a classic group: it joins, one of them assigns, all are told, and heartbeats follow.

    UNJOINED ──JoinGroup──▶ JOINED ──SyncGroup──▶ STABLE ──Heartbeat──▶ STABLE
        ▲                                            │
        └──────────── a rebalance has begun ─────────┘

Under `range` a member gives up all it owns before it joins again; under `cooperative-sticky` it
keeps it, gives up only what the new assignment lacks, and then joins once more, so that others can
be given that. While a change waits for the user, heartbeats go on.
"""

from enum import Enum, auto

from penstock.client.consume.group_offsets import Committer
from penstock.client.consume.membership.assignors import Assignor, Shares, Subscriber, assign
from penstock.client.consume.membership.member import (
    Assign,
    Change,
    Lose,
    Places,
    Question,
    Revoke,
    united,
    without,
)
from penstock.client.network.errors import RETRIABLE, Refused, error_code
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message
from penstock.wire.embedded import read_embedded, write_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 0
NO_GENERATION = -1
RETRY_MS = 100
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class State(Enum):
    UNJOINED = auto()
    JOINED = auto()
    STABLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSubscription:
    group: str
    topics: tuple[str, ...]
    assignor: Assignor = Assignor.COOPERATIVE_STICKY
    instance_id: str | None = None
    rack: str | None = None
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 300_000


class ClassicMember:
    def __init__(self, subscription: ClassicSubscription) -> None:
        self.subscription = subscription
        self.member_id = ""
        self.generation = NO_GENERATION
        self.state = State.UNJOINED
        self.owned: Places = ()
        self.target: Places | None = None  # None: no assignment holds
        self.error: Refused | None = None
        self.next_at_ms = 0
        self._lost = False
        self._carrying: Change | None = None
        self._join_again = False  # once the assignment is carried out, as far as it can be
        self._waiting = False  # for an answer
        self._subscribers: dict[str, Subscriber] = {}  # of the group, where we lead it
        self._counts: dict[str, int] = {}  # partitions of each topic, as last assigned
        self._is_cooperative = subscription.assignor is Assignor.COOPERATIVE_STICKY

    @property
    def committer(self) -> Committer | None:
        if self.generation == NO_GENERATION:
            return None
        return Committer(
            member_id=self.member_id,
            epoch=self.generation,
            instance_id=self.subscription.instance_id,
        )

    @property
    def topics_needed(self) -> tuple[str, ...]:
        """For the assignment alone: heartbeats go on without."""
        return _topics(self._subscribers) if self.state is State.JOINED else ()

    def request(self, view: ClusterView, *, now_ms: int) -> Question | None:
        if self.error is not None or self._waiting or now_ms < self.next_at_ms:
            return None
        match self.state:
            case State.UNJOINED if not self._may_join():
                if self._lost or not self.member_id:
                    return None
                question = self._heartbeat()
            case State.UNJOINED:
                question = self._join()
            case State.JOINED:
                question = self._sync(view)
            case State.STABLE:
                question = self._heartbeat()
        self._waiting = True
        return question

    def answered(self, reply: Message, view: ClusterView, *, now_ms: int) -> None:
        self._waiting = False
        self.next_at_ms = now_ms
        match reply:
            case JoinGroupResponse():
                self._joined(reply, now_ms)
            case SyncGroupResponse():
                self._synced(reply, now_ms)
            case HeartbeatResponse():
                self._heard(error_code(reply.error_code), now_ms)
            case _:
                raise AssertionError(reply)

    def unanswered(self, *, now_ms: int) -> None:
        self._waiting = False
        self.next_at_ms = now_ms + RETRY_MS
        if self.state is State.JOINED:
            self.state = State.UNJOINED

    def metadata_changed(self, view: ClusterView, *, now_ms: int) -> None:
        """The leader joins again when its topics have other partitions than it assigned."""
        if self._subscribers and self.state is State.STABLE:
            counts = _counts(view, self._subscribers)
            if counts != self._counts:
                self.state = State.UNJOINED
                self.next_at_ms = now_ms

    def has_change(self) -> bool:
        return self._carrying is not None or self._change() is not None

    def take_change(self) -> Change | None:
        assert self._carrying is None, "invariant 1"
        self._carrying = self._change()
        return self._carrying

    def carried_out(self, change: Change, *, now_ms: int) -> None:
        assert change is self._carrying
        self._carrying = None
        match change:
            case Revoke(partitions) | Lose(partitions):
                self.owned = without(self.owned, partitions)
            case Assign(partitions):
                self.owned = united(self.owned, partitions)
        self._lost = self._lost and bool(self.owned)
        if self._change() is None and (self._join_again or self.state is State.UNJOINED):
            self._rejoin(now_ms)

    def put_back(self, change: Change) -> None:
        assert change is self._carrying
        self._carrying = None
        self._lost = self._lost and bool(self.owned)
        if self._join_again or self.state is State.UNJOINED:
            # Others wait for what was given up; the next assignment says again what is ours.
            self._rejoin(0)

    def leave(self) -> Question | None:
        """A static member says nothing: it may be back before its session ends."""
        member_id, static = self.member_id, self.subscription.instance_id is not None
        self._lose()
        self.member_id = "" if not static else member_id
        if not member_id or static:
            return None
        request = LeaveGroupRequest(
            group_id=self.subscription.group,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason="the consumer was closed")],
        )
        return Question(request, LeaveGroupResponse)

    def _rejoin(self, now_ms: int) -> None:
        self._join_again = False
        self.state = State.UNJOINED
        if not self._waiting:
            self.next_at_ms = now_ms

    def _may_join(self) -> bool:
        if self._carrying is not None or self._lost:
            return False
        return self._is_cooperative or not self.owned

    def _change(self) -> Change | None:
        if self._lost:
            return Lose(self.owned) if self.owned else None
        if self.state is State.UNJOINED:
            return Revoke(self.owned) if self.owned and not self._is_cooperative else None
        if self.target is None:
            return None
        gone = without(self.owned, self.target)
        if gone:
            return Revoke(gone)
        new = without(self.target, self.owned)
        return Assign(new) if new else None

    def _join(self) -> Question:
        subscription = self.subscription
        told = ConsumerProtocolSubscription(
            topics=sorted(subscription.topics),
            owned_partitions=_by_topic(self.owned),
            generation_id=self.generation,
            rack_id=subscription.rack,
        )
        request = JoinGroupRequest(
            group_id=subscription.group,
            session_timeout_ms=subscription.session_ms,
            rebalance_timeout_ms=subscription.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=subscription.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=subscription.assignor.value,
                    metadata=write_embedded(told, version=SUBSCRIPTION_VERSION),
                )
            ],
        )
        self._subscribers = {}
        return Question(request, JoinGroupResponse, may_wait=True)

    def _joined(self, reply: JoinGroupResponse, now_ms: int) -> None:
        code = error_code(reply.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return
        if code != ErrorCode.NONE:
            self._refused(code, now_ms)
            return
        self.member_id, self.generation = reply.member_id, reply.generation_id
        self.state, self.target = State.JOINED, None
        if reply.leader == self.member_id and not reply.skip_assignment:
            try:
                self._subscribers = {
                    member.member_id: _subscriber(member.metadata, member.group_instance_id)
                    for member in reply.members
                }
            except MalformedMessage as error:
                about = f"group {self.subscription.group}"
                self.error = Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, about, str(error))

    def _sync(self, view: ClusterView) -> Question:
        shares: Shares = {}
        if self._subscribers:
            self._counts = _counts(view, self._subscribers)
            shares = assign(self.subscription.assignor, self._subscribers, self._counts)
        request = SyncGroupRequest(
            group_id=self.subscription.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.subscription.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.subscription.assignor.value,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member,
                    assignment=write_embedded(
                        ConsumerProtocolAssignment(assigned_partitions=_by_topic(share)),
                        version=ASSIGNMENT_VERSION,
                    ),
                )
                for member, share in shares.items()
            ],
        )
        return Question(request, SyncGroupResponse, may_wait=True)

    def _synced(self, reply: SyncGroupResponse, now_ms: int) -> None:
        code = error_code(reply.error_code)
        if code != ErrorCode.NONE:
            self._refused(code, now_ms)
            return
        try:
            told = (
                read_embedded(ConsumerProtocolAssignment, reply.assignment)
                if reply.assignment
                else ConsumerProtocolAssignment()
            )
        except MalformedMessage as error:
            about = f"group {self.subscription.group}"
            self.error = Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, about, str(error))
            return
        self.target = tuple(sorted(_places(told.assigned_partitions)))
        self.state = State.STABLE
        self._join_again = bool(without(self.owned, self.target))
        self.next_at_ms = now_ms + self.subscription.heartbeat_ms

    def _heartbeat(self) -> Question:
        request = HeartbeatRequest(
            group_id=self.subscription.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.subscription.instance_id,
        )
        return Question(request, HeartbeatResponse)

    def _heard(self, code: ErrorCode, now_ms: int) -> None:
        if code == ErrorCode.NONE:
            if self.state is State.STABLE or not self._may_join():
                self.next_at_ms = now_ms + self.subscription.heartbeat_ms
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.state = State.UNJOINED
            if not self._may_join():
                self.next_at_ms = now_ms + self.subscription.heartbeat_ms
        else:
            self._refused(code, now_ms)

    def _refused(self, code: ErrorCode, now_ms: int) -> None:
        if code in FENCED:
            self._lose()
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif code == ErrorCode.REBALANCE_IN_PROGRESS or code in RETRIABLE:
            self.state = State.UNJOINED
            if code in RETRIABLE:
                self.next_at_ms = now_ms + RETRY_MS
        else:
            self.error = Refused(code, f"group {self.subscription.group}")

    def _lose(self) -> None:
        self.state, self.target = State.UNJOINED, None
        self.generation = NO_GENERATION
        self._join_again = False
        self._lost = bool(self.owned) or self._carrying is not None


def _subscriber(metadata: bytes, instance_id: str | None) -> Subscriber:
    told = read_embedded(ConsumerProtocolSubscription, metadata)
    return Subscriber(
        topics=tuple(told.topics),
        instance_id=instance_id,
        owned=tuple(_places(told.owned_partitions)),
        generation=told.generation_id,
    )


def _counts(view: ClusterView, subscribers: dict[str, Subscriber]) -> dict[str, int]:
    return {
        topic: len(view.topics[topic].partitions)
        for topic in _topics(subscribers)
        if topic in view.topics
    }


def _topics(subscribers: dict[str, Subscriber]) -> tuple[str, ...]:
    """Of all of them, each once."""
    return tuple(dict.fromkeys(topic for one in subscribers.values() for topic in one.topics))


def _places(topics: list[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]


def _by_topic(places: Places) -> list[TopicPartitions]:
    topics: dict[str, TopicPartitions] = {}
    for name, index in places:
        topics.setdefault(name, TopicPartitions(topic=name)).partitions.append(index)
    return list(topics.values())
