"""A consumer of the classic protocol whose group may become one of the consumer protocol.

It tells its subscription and what it owns as real consumers do, hands over cooperatively, and
assigns as a leader when the group is a classic one.
"""

from dataclasses import dataclass

from penstock.groups.requests import Parked
from penstock.machine.held_replies import NotDone
from penstock.model.error import ErrorCode
from penstock.wire.embedded import read_embedded, write_embedded
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
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from rig.group_world import GroupWorld

Named = frozenset[tuple[str, int]]  # topic and partition
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
FATAL = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
)


@dataclass(eq=False)
class UpgradableConsumer:
    """`next_step` is what it sends next: join, sync or heartbeat."""

    world: GroupWorld
    group: str
    topics: tuple[str, ...]
    counts: dict[str, int]  # of partitions, for when it leads
    instance_id: str | None = None
    protocol: str = "cooperative-sticky"
    session_ms: int = 10_000
    rebalance_ms: int = 20_000
    member_id: str = ""
    generation: int = -1
    owned: Named = frozenset()
    lives: bool = True
    next_step: str = "join"
    led: tuple[tuple[str, bytes], ...] = ()  # members, with what they told, if it leads
    ticket: int | None = None
    last_code: ErrorCode = ErrorCode.NONE

    def act(self) -> None:
        """Takes in what was answered, and sends what comes next."""
        self.listen()
        if self.lives and self.ticket is None:
            getattr(self, self.next_step)()
            self.listen()

    def listen(self) -> None:
        reply = self.world.answers.get(self.ticket or 0)
        if self.ticket is None or reply is None:
            return
        self.ticket = None
        match reply:
            case NotDone() | Parked():
                self.next_step = "join"
            case JoinGroupResponse():
                self._joined(reply)
            case SyncGroupResponse():
                self._react(ErrorCode(reply.error_code))
                if reply.error_code == ErrorCode.NONE:
                    self._assigned(read_embedded(ConsumerProtocolAssignment, reply.assignment))
            case HeartbeatResponse():
                self._react(ErrorCode(reply.error_code))

    def join(self) -> None:
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics),
            owned_partitions=on_the_wire(self.owned),
            generation_id=self.generation,
        )
        protocol = JoinGroupRequestProtocol(
            name=self.protocol, metadata=write_embedded(subscription, version=3)
        )
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._ask(request, version=9)

    def sync(self) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=write_embedded(
                        ConsumerProtocolAssignment(assigned_partitions=on_the_wire(part)), version=3
                    ),
                )
                for member_id, part in self._shares().items()
            ],
        )
        self._ask(request, version=5)

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self._ask(request, version=4)

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.world.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), version=5)
        self.die()

    def die(self) -> None:
        self.lives = False
        self.owned = frozenset()

    def _ask(self, request: object, *, version: int) -> None:
        self.ticket = self.world.ask(request, version=version, client_id="classic")

    def _joined(self, reply: JoinGroupResponse) -> None:
        self.last_code = ErrorCode(reply.error_code)
        if self.last_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif self.last_code is not ErrorCode.NONE:
            self._react(self.last_code)
        else:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self.next_step = "sync"
            self.led = tuple((m.member_id, bytes(m.metadata)) for m in reply.members)

    def _assigned(self, assignment: ConsumerProtocolAssignment) -> None:
        told = frozenset(
            (topic.topic, partition)
            for topic in assignment.assigned_partitions
            for partition in topic.partitions
        )
        # A cooperative consumer that has given something up joins again, to let others have it.
        self.next_step = "join" if self.owned - told else "heartbeat"
        self.owned = told

    def _react(self, code: ErrorCode) -> None:
        self.last_code = code
        if code in FATAL:
            self.die()
        elif code in LOST:
            self.member_id, self.generation, self.owned = "", -1, frozenset()
            self.next_step = "join"
        elif code is not ErrorCode.NONE:
            self.next_step = "join"

    def _shares(self) -> dict[str, Named]:
        """What the leader assigns: in turn, but nothing that another has not given up yet."""
        shares: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id, _ in self.led}
        told = {id_: read_embedded(ConsumerProtocolSubscription, data) for id_, data in self.led}
        owner = {
            (topic.topic, partition): member_id
            for member_id, subscription in told.items()
            for topic in subscription.owned_partitions
            for partition in topic.partitions
        }
        for topic in sorted({topic for s in told.values() for topic in s.topics}):
            readers = [member_id for member_id, s in told.items() if topic in s.topics]
            for partition in range(self.counts.get(topic, 0)):
                taker = readers[partition % len(readers)]
                if owner.get((topic, partition), taker) == taker:
                    shares[taker].add((topic, partition))
        return {member_id: frozenset(share) for member_id, share in shares.items()}


def on_the_wire(partitions: Named) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
