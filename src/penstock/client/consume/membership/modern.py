"""A member under KIP-848: the coordinator assigns, and one heartbeat does everything.

It joins with epoch 0 and an id of its own choice, and is told its epoch, its assignment and how
often to be heard. A new assignment is carried out, revocations first; the next heartbeat, at once,
says what is owned then. What was taken away is acknowledged as soon as it is given up, since others
wait for it, also while the rest cannot be taken on yet. One that is fenced has lost all and joins
again.
"""

from penstock.client.consume.group_offsets import Committer
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
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message
from penstock.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_FOR_A_WHILE_EPOCH = -2  # of a static member, which will be back
RETRY_MS = 100
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernSubscription:
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None  # RE2, matched by the coordinator
    instance_id: str | None = None
    rack: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 300_000


class ModernMember:
    def __init__(self, subscription: ModernSubscription, *, member_id: str) -> None:
        assert member_id
        self.subscription = subscription
        self.member_id = member_id
        self.epoch = JOINING_EPOCH
        self.owned: Places = ()
        self.target: Places = ()
        self.error: Refused | None = None
        self.next_at_ms = 0
        self.topics_needed: tuple[str, ...] = ()
        self._fenced = False
        self._carrying: Change | None = None
        self._sent_all = False  # whether the coordinator knows what does not change
        self._sent_owned: Places | None = None
        self._is_awaited = False  # the coordinator has taken partitions away, and waits to hear so
        self._ids: dict[str, TopicId] = {}

    @property
    def committer(self) -> Committer | None:
        if self.epoch <= JOINING_EPOCH:
            return None
        return Committer(
            member_id=self.member_id, epoch=self.epoch, instance_id=self.subscription.instance_id
        )

    def request(self, view: ClusterView, *, now_ms: int) -> Question | None:
        if self.error is not None or now_ms < self.next_at_ms:
            return None
        if self._fenced and (self.owned or self._carrying):
            return None  # the loss comes first
        self._fenced = False
        joining = self.epoch == JOINING_EPOCH
        whole = joining or not self._sent_all
        subscription = self.subscription
        request = ConsumerGroupHeartbeatRequest(
            group_id=subscription.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=subscription.instance_id,
        )
        if whole:
            request.rack_id = subscription.rack
            request.rebalance_timeout_ms = subscription.rebalance_ms
            request.server_assignor = subscription.assignor
            request.subscribed_topic_regex = subscription.pattern
            request.subscribed_topic_names = (
                list(subscription.topics) if subscription.pattern is None else None
            )
        if whole or self._is_to_report():
            held = () if joining else self._held()
            request.topic_partitions = self._by_id(held)
            self._sent_owned = held
            self._is_awaited = self._is_awaited and self._is_giving_up()
        self._sent_all = True
        # Until the answer is there nothing is due.
        self.next_at_ms = now_ms + subscription.rebalance_ms
        # A second one that says as little would tell the coordinator that its reply has arrived.
        return Question(request, ConsumerGroupHeartbeatResponse, repeatable=False)

    def answered(self, reply: Message, view: ClusterView, *, now_ms: int) -> None:
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        code = error_code(reply.error_code)
        if code in FENCED:
            self._fence(now_ms)
        elif code in RETRIABLE:
            self.unanswered(now_ms=now_ms)
        elif code != ErrorCode.NONE:
            about = f"group {self.subscription.group}"
            self.error = Refused(code, about, reply.error_message)
        else:
            self.epoch = reply.member_epoch
            self.member_id = reply.member_id or self.member_id
            self.next_at_ms = now_ms + reply.heartbeat_interval_ms
            if reply.assignment is not None:
                target = self._named(reply.assignment, view)
                if target != self.target:
                    # Each assignment is acknowledged, also one that changes nothing: the one
                    # before was perhaps not carried out, and the coordinator does not know.
                    self._sent_owned = None
                if without(self.target, target):
                    self._is_awaited = True
                self.target = target
                if unknown_topics(reply, view):
                    # Either deleted, or new and unknown to the broker that told of topics: asked
                    # for everything, the coordinator says it again.
                    self._sent_all = False
            if self._is_to_report():
                self.next_at_ms = now_ms  # it was carried out while the question was on its way

    def unanswered(self, *, now_ms: int) -> None:
        """It may or may not have come through: the next one says everything again."""
        self._sent_all = False
        self.next_at_ms = now_ms + RETRY_MS

    def metadata_changed(self, view: ClusterView, *, now_ms: int) -> None:
        """The coordinator looks after that."""

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
        if not self._is_giving_up():
            self.next_at_ms = now_ms  # others may wait for what we gave up

    def put_back(self, change: Change) -> None:
        assert change is self._carrying
        self._carrying = None
        if self._is_to_report():
            self.next_at_ms = 0  # it was being tried when it was taken away

    def leave(self) -> Question | None:
        if self.epoch <= JOINING_EPOCH or self._fenced:
            return None
        static = self.subscription.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.subscription.group,
            member_id=self.member_id,
            member_epoch=LEAVING_FOR_A_WHILE_EPOCH if static else LEAVING_EPOCH,
            instance_id=self.subscription.instance_id,
        )
        self._fence(0)
        return Question(request, ConsumerGroupHeartbeatResponse)

    def _fence(self, now_ms: int) -> None:
        self._fenced = True
        self.epoch = JOINING_EPOCH
        self.target = ()
        self._sent_owned = None
        self._is_awaited = False
        self.next_at_ms = now_ms

    def _change(self) -> Change | None:
        if self._fenced:
            return Lose(self.owned) if self.owned else None
        gone = without(self.owned, self.target)
        if gone:
            return Revoke(gone)
        new = without(self.target, self.owned)
        return Assign(new) if new else None

    def _is_to_report(self) -> bool:
        if self._is_giving_up():
            return False
        return self._is_awaited or (self.owned != self._sent_owned and not self.has_change())

    def _is_giving_up(self) -> bool:
        if isinstance(self._carrying, Revoke | Lose):
            return True
        return bool(without(self._held(), self.target))

    def _held(self) -> Places:
        """What it owns, and what it is assigned or taking on: it may have taken that on before the
        answer is there. The coordinator would give to others what is not reported.
        """
        held = united(self.owned, self.target)
        if isinstance(self._carrying, Assign):
            return united(held, self._carrying.partitions)
        return held

    def _named(self, assignment: Assignment, view: ClusterView) -> Places:
        """Topics without a known name are left out."""
        names = view.topic_names()
        found = []
        for topic in assignment.topic_partitions:
            name = names.get(TopicId(topic.topic_id))
            if name is not None:
                self._ids[name] = TopicId(topic.topic_id)
                found += [TopicPartition(name, index) for index in topic.partitions]
        return tuple(sorted(found))

    def _by_id(self, places: Places) -> list[TopicPartitions]:
        topics: dict[str, TopicPartitions] = {}
        for name, index in places:
            topic = topics.setdefault(name, TopicPartitions(topic_id=self._ids[name]))
            topic.partitions.append(index)
        return list(topics.values())


def unknown_topics(reply: Message, view: ClusterView) -> bool:
    """Whether a heartbeat's reply names topics, by id, that the view does not know."""
    if not isinstance(reply, ConsumerGroupHeartbeatResponse) or reply.assignment is None:
        return False
    names = view.topic_names()
    return any(TopicId(t.topic_id) not in names for t in reply.assignment.topic_partitions)
