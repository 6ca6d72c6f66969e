"""A consumer of a classic group as real clients behave: what it was told decides what it does."""

from dataclasses import dataclass
from enum import Enum, auto

from penstock.machine.held_replies import NotDone
from penstock.model.error import ErrorCode
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

GROUP = "orders"
PARTITIONS = 7

# The codes after which a client begins again with a new id, and those after which it gives up.
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
FATAL = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


class Phase(Enum):
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()
    GONE = auto()


@dataclass(eq=False)
class GroupConsumer:
    world: GroupWorld
    name: str
    instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    session_ms: int = 6000
    rebalance_ms: int = 8000
    saying: bytes = b""
    phase: Phase = Phase.JOINING
    member_id: str = ""
    generation: int = -1
    protocol_name: str | None = None
    members: tuple[str, ...] = ()  # if it leads
    partitions: frozenset[int] = frozenset()
    ticket: int | None = None  # of a request that has not been answered

    @property
    def lives(self) -> bool:
        return self.phase is not Phase.GONE

    def act(self) -> None:
        """Takes in what was answered, and sends what comes next."""
        self.listen()
        if self.ticket is not None:
            return
        match self.phase:
            case Phase.JOINING:
                self.join()
            case Phase.SYNCING:
                self.sync()
            case Phase.STABLE:
                self.heartbeat()
            case Phase.GONE:
                return
        self.listen()

    def listen(self) -> None:
        if self.ticket is None or self.ticket not in self.world.answers:
            return
        reply = self.world.answers[self.ticket]
        self.ticket = None
        if not self.lives:
            return
        match reply:
            case JoinGroupResponse():
                self._joined(reply)
            case SyncGroupResponse():
                self._synced(reply)
            case HeartbeatResponse():
                self._react(ErrorCode(reply.error_code))
            case NotDone():
                self.phase = Phase.JOINING
            case _:
                raise AssertionError(reply)

    def join(self) -> None:
        """Also while an earlier join waits: then that one is given up."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.saying) for name in self.protocols
            ],
        )
        self.phase = Phase.JOINING
        self._ask(request, version=9)

    def sync(self) -> None:
        parts: dict[str, list[int]] = {member: [] for member in self.members}
        if self.members:
            for partition in range(PARTITIONS):
                parts[self.members[partition % len(self.members)]].append(partition)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=bytes(numbers))
                for member, numbers in parts.items()
            ],
        )
        self._ask(request, version=5)

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self._ask(request, version=4)

    def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self.world.ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), version=5)
        self.die()

    def die(self) -> None:
        self.phase = Phase.GONE

    def _ask(self, request: object, *, version: int) -> None:
        self.ticket = self.world.ask(request, version=version, client_id=self.name)

    def _joined(self, reply: JoinGroupResponse) -> None:
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            return
        if reply.error_code != ErrorCode.NONE:
            self._react(ErrorCode(reply.error_code))
            return
        self.phase = Phase.SYNCING
        self.member_id = reply.member_id
        self.generation = reply.generation_id
        self.protocol_name = reply.protocol_name
        self.members = tuple(member.member_id for member in reply.members)
        if reply.skip_assignment:
            self.members = ()

    def _synced(self, reply: SyncGroupResponse) -> None:
        self._react(ErrorCode(reply.error_code))
        if reply.error_code == ErrorCode.NONE:
            self.phase = Phase.STABLE
            self.partitions = frozenset(bytes(reply.assignment))

    def _react(self, code: ErrorCode) -> None:
        if code in FATAL:
            self.phase = Phase.GONE
        elif code in LOST:
            self.phase = Phase.JOINING
            self.member_id, self.generation = "", -1
        elif code is not ErrorCode.NONE:
            self.phase = Phase.JOINING
