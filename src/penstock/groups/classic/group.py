"""A classic group: its state, its members, and the progress of each in a rebalance.

A member joins, waits until all others have joined, and gets the generation in the reply. The leader
then sends the assignment with its SyncGroup, and each member gets its part in the reply to its own
SyncGroup.

                      first member joins                    all joined, or time is up
            EMPTY ──────────────────────────► PREPARING ──────────────────────────► COMPLETING
              ▲                                │  ▲   ▲                                │  │
              └────────── nobody is left ──────┘  │   └── a member comes, goes, ───────┘  │
                                                  │       changes, or does not sync       │
                                                  └───────────── STABLE ◄─────────────────┘
                                                                       the leader's sync is stored

Kafka's state Dead is a group that does not exist here. Groups are treated as values: a decision
works on a copy (`classic/draft`), which replaces the old group when the decision is applied.
`classic/stored` says what the journal keeps of a group.

Invariants:
1. A group is EMPTY exactly when it has no members and is not about to begin a generation.
2. The leader is a member; a group with members has one.
3. Each instance id belongs to one member, and is found by it.
4. Only a PREPARING group has parked joins, only a COMPLETING one parked syncs.
5. A COMPLETING or STABLE group has a protocol that every member supports.
6. No id is both given out (`pending`) and a member; those that have still to sync are members.
7. Only a PREPARING group that was empty has an initial delay.
8. The counts of supporters and of parked joins match the members.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.coordinator_records.group_metadata import GroupMetadataValue

CONSUMER_PROTOCOL_TYPE = "consumer"  # the type whose metadata are subscriptions to topics


class ClassicState(Enum):
    """Kafka's states, by the names that clients see."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


MAY_BECOME: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING}),
    ClassicState.PREPARING: frozenset({ClassicState.COMPLETING, ClassicState.EMPTY}),
    ClassicState.COMPLETING: frozenset({ClassicState.STABLE, ClassicState.PREPARING}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING}),
}
assert set(MAY_BECOME) == set(ClassicState)


@dataclass(frozen=True, slots=True)
class SupportedProtocol:
    """An assignor that a member supports, with the member's metadata for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    member_id: str
    instance_id: str | None  # of a static member: its name across restarts
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]  # the ones it likes best come first
    assignment: bytes = b""
    join_ticket: int | None = None  # of its parked JoinGroup
    sync_ticket: int | None = None  # of its parked SyncGroup
    is_new: bool = False  # it has not been told its first generation

    @property
    def protocol_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(protocol.name for protocol in self.protocols))

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol; empty for a protocol that it does not support."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"{self.member_id} supports none of {sorted(candidates)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDelay:
    """The first rebalance of an empty group waits for more members, step by step."""

    step_ms: int  # how long the current step is
    left_ms: int  # what may still be added to it
    someone_came: bool = False  # during the current step


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    group_id: str
    state: ClassicState = ClassicState.EMPTY
    state_since_ms: int | None  # wall clock; None where the journal does not tell
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None  # the one chosen for this generation
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)  # in the order they came
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending: dict[str, None] = field(default_factory=dict)  # ids given out, yet to join, in order
    unsynced: set[str] = field(default_factory=set)  # members of this generation, yet to sync
    initial: InitialDelay | None = None
    supporters: Counter[str] = field(default_factory=Counter)  # members, by protocol
    metadata_bytes: Counter[str] = field(default_factory=Counter)  # of all members, by protocol
    protocols_bytes: int = 0  # of all protocols of all members, names included
    joined_count: int = 0  # members whose join is parked
    stored: GroupMetadataValue | None = None  # what the journal has, if static members are in it

    def copy(self) -> "ClassicGroup":
        return ClassicGroup(
            group_id=self.group_id,
            state=self.state,
            state_since_ms=self.state_since_ms,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            members=dict(self.members),
            static_members=dict(self.static_members),
            pending=dict(self.pending),
            unsynced=set(self.unsynced),
            initial=self.initial,
            supporters=self.supporters.copy(),
            metadata_bytes=self.metadata_bytes.copy(),
            protocols_bytes=self.protocols_bytes,
            joined_count=self.joined_count,
            stored=self.stored,
        )

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def all_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for the slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with all present members."""
        if self.state is ClassicState.EMPTY:
            return protocol_type != "" and any(True for _ in names)
        if protocol_type != self.protocol_type:
            return False
        return any(self.supporters[name] == len(self.members) for name in names)

    def elected_protocol(self) -> str:
        """The protocol with the most votes among those that all members support; the oldest vote
        breaks ties.
        """
        assert self.members
        count = len(self.members)
        candidates = frozenset(name for name, known in self.supporters.items() if known == count)
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def become(self, state: ClassicState, *, now_ms: int) -> None:
        assert state in MAY_BECOME[self.state], (self.group_id, self.state, state)
        self.state = state
        self.state_since_ms = now_ms
        if state is not ClassicState.PREPARING:
            self.initial = None

    def add(self, member: ClassicMember, *, protocol_type: str) -> None:
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert protocol_type == self.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.pending.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._count(member, 1)

    def change(self, member: ClassicMember) -> None:
        """Replaces the member that has the same id."""
        old = self.members[member.member_id]
        self.members[member.member_id] = member
        if old.protocols is not member.protocols:  # most changes leave them as they are
            self._count_protocols(old, -1)
            self._count_protocols(member, 1)
        self.joined_count += (member.join_ticket is not None) - (old.join_ticket is not None)

    def remove(self, member_id: str) -> None:
        """Removes a member; if it was the leader, the oldest of the others becomes leader."""
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.unsynced.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def rename(self, old_id: str, member: ClassicMember) -> None:
        """Replaces a static member by itself with a new member id."""
        old = self.members[old_id]
        assert member.instance_id is not None
        assert old.instance_id == member.instance_id
        self._count(old, -1)
        self._count(member, 1)
        self.members = {
            (member.member_id if other_id == old_id else other_id): (
                member if other_id == old_id else other
            )
            for other_id, other in self.members.items()
        }
        self.static_members[member.instance_id] = member.member_id
        if self.leader == old_id:
            self.leader = member.member_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(member.member_id)

    def check(self) -> None:
        members = self.members
        if self.state is ClassicState.EMPTY:
            assert not members, self  # invariant 1
        elif self.state is not ClassicState.PREPARING:
            assert members, self  # invariant 1
        assert (self.leader in members) if members else self.leader is None, self  # invariant 2
        named = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        assert named == self.static_members, self  # invariant 3
        for member_id, member in members.items():
            assert member_id == member.member_id
            if self.state is not ClassicState.PREPARING:
                assert member.join_ticket is None, member  # invariant 4
            if self.state is not ClassicState.COMPLETING:
                assert member.sync_ticket is None, member  # invariant 4
            if self.state in (ClassicState.COMPLETING, ClassicState.STABLE):
                assert self.protocol_name in member.protocol_names, member  # invariant 5
        assert not self.pending.keys() & members.keys(), self  # invariant 6
        assert self.unsynced <= members.keys(), self  # invariant 6
        if self.initial is not None:
            assert self.state is ClassicState.PREPARING, self  # invariant 7
        self._check_counts()

    def _check_counts(self) -> None:
        supporters = Counter(name for m in self.members.values() for name in m.protocol_names)
        assert +self.supporters == supporters, self  # invariant 8
        metadata_bytes: Counter[str] = Counter()
        for member in self.members.values():
            for protocol in member.protocols:
                metadata_bytes[protocol.name] += len(protocol.metadata)
        assert +self.metadata_bytes == +metadata_bytes, self  # invariant 8
        held = sum(size_bytes(member.protocols) for member in self.members.values())
        assert self.protocols_bytes == held, self  # invariant 8
        joined = sum(member.join_ticket is not None for member in self.members.values())
        assert self.joined_count == joined, self  # invariant 8

    def _count(self, member: ClassicMember, sign: int) -> None:
        self._count_protocols(member, sign)
        if member.join_ticket is not None:
            self.joined_count += sign

    def _count_protocols(self, member: ClassicMember, sign: int) -> None:
        for protocol in member.protocols:
            self.metadata_bytes[protocol.name] += sign * len(protocol.metadata)
        for name in member.protocol_names:
            self.supporters[name] += sign
            if not self.supporters[name]:
                del self.supporters[name]
                del self.metadata_bytes[name]
        self.protocols_bytes += sign * size_bytes(member.protocols)


def size_bytes(protocols: Iterable[SupportedProtocol]) -> int:
    """What they take of memory."""
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)
