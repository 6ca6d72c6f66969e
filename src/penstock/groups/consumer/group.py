"""A consumer group: its epoch, its members, the target assignment and the current one.

    epoch           raised whenever members, subscriptions or the topics they name change
    target_epoch    the epoch for which the target assignment was computed; follows at once
    member.epoch    follows when the member has taken over its part of the target

Its state follows from its records alone: `consumer/draft` applies them to a copy while a decision
is made, `groups/shard` to the group itself, once they are journalled.

Invariants:
1. target_epoch <= epoch.
2. A partition has at most one owner: the member that has it assigned, or is asked to give it up.
3. No partition is in two members' targets.
4. Each instance id belongs to one member, and is found by it.
5. `reconciled` holds exactly the members that own what the target gives them.
6. Every stored regular expression belongs to a member. Those of 2, 3 and 6 hold between decisions;
   a journal that others wrote may begin otherwise.
7. `subscribers` and `subscribed_count` match the topics that members subscribe to by name.
"""

from collections import Counter
from dataclasses import field, replace
from enum import Enum
from typing import assert_never

from penstock.groups.assignor.spec import TopicIdPartition
from penstock.groups.consumer.member import NOTHING, ConsumerMember, MemberState
from penstock.groups.consumer.stored import target_of, with_current, with_metadata
from penstock.groups.records import (
    ConsumerCurrentStored,
    ConsumerGroupStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
    ConsumerTargetStored,
)
from penstock.metadata.image.image import Image
from penstock.model.lazy_dataclass import dataclass

FIRST_EPOCH = 1  # of a group that has not been journalled yet

ConsumerRecord = (
    ConsumerGroupStored
    | ConsumerMemberStored
    | ConsumerTargetStored
    | ConsumerTargetMemberStored
    | ConsumerCurrentStored
    | ConsumerRegexStored
)


class ConsumerState(Enum):
    """Kafka's states, by the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0  # of the topics subscribed to, as they were at this epoch
    target_epoch: int = FIRST_EPOCH
    target_made_ms: int = 0  # wall clock; in an empty group, when the last member went
    members: dict[str, ConsumerMember] = field(default_factory=dict)  # in the order they came
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    target: dict[str, frozenset[TopicIdPartition]] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # -> topics that match
    reconciled: set[str] = field(default_factory=set)
    subscribers: dict[str, int] = field(default_factory=dict)  # members, by name of a topic
    subscribed_count: int = 0  # names that members subscribe to, those of each counted
    seen: Image | None = None  # that `regexes` were matched with last; volatile

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if self.is_settled:
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_settled(self) -> bool:
        """Whether all members own what the target assigns to them."""
        return self.epoch == self.target_epoch and len(self.reconciled) == len(self.members)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def copy(self) -> "ConsumerGroup":
        """A copy to apply records to: members are values, and are shared."""
        return ConsumerGroup(
            group_id=self.group_id,
            epoch=self.epoch,
            metadata_hash=self.metadata_hash,
            target_epoch=self.target_epoch,
            target_made_ms=self.target_made_ms,
            members=dict(self.members),
            static_members=dict(self.static_members),
            target=dict(self.target),
            owners=dict(self.owners),
            regexes=dict(self.regexes),
            reconciled=set(self.reconciled),
            subscribers=dict(self.subscribers),
            subscribed_count=self.subscribed_count,
            seen=self.seen,
        )

    def apply(self, record: ConsumerRecord) -> None:
        """Applies a record. The tombstone of the group itself is handled by the owner of the
        groups.
        """
        match record:
            case ConsumerGroupStored():
                if record.value is not None:
                    self.epoch = record.value.epoch
                    self.metadata_hash = record.value.metadata_hash
            case ConsumerMemberStored():
                self._apply_member(record)
            case ConsumerTargetStored():
                value = record.value
                self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
                self.target_made_ms = 0 if value is None else value.assignment_timestamp
                self._reckon_reconciled()
            case ConsumerTargetMemberStored():
                if record.value is None:
                    self.target.pop(record.member, None)
                else:
                    self.target[record.member] = target_of(record.value)
            case ConsumerCurrentStored():
                self._apply_current(record)
            case ConsumerRegexStored():
                if record.value is None:
                    self.regexes.pop(record.regex, None)
                else:
                    self.regexes[record.regex] = tuple(record.value.topics)
            case _:
                assert_never(record)

    def check(self) -> None:
        assert self.target_epoch <= self.epoch, self  # invariant 1
        owned = [p for m in self.members.values() for p in (*m.assigned, *m.revoking)]
        assert len(owned) == len(set(owned)) == len(self.owners), self  # invariant 2
        for partition, member_id in self.owners.items():
            assert self.members[member_id].epoch_of(partition) is not None, partition
        targeted = [partition for target in self.target.values() for partition in target]
        assert len(targeted) == len(set(targeted)), self  # invariant 3
        named = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id}
        assert named == self.static_members, self  # invariant 4
        reconciled = {
            member_id
            for member_id, member in self.members.items()
            if member.is_reconciled_to(self.target_epoch)
        }
        assert reconciled == self.reconciled, self  # invariant 5
        used = {member.regex for member in self.members.values()}
        assert self.regexes.keys() <= used, self  # invariant 6
        subscribers = Counter(name for member in self.members.values() for name in member.topics)
        assert subscribers == self.subscribers, self  # invariant 7
        assert subscribers.total() == self.subscribed_count, self  # invariant 7

    def _apply_member(self, record: ConsumerMemberStored) -> None:
        old = self.members.get(record.member)
        if record.value is not None:
            member = old or ConsumerMember(member_id=record.member)
            self._put(with_metadata(member, record.value))
        elif old is not None:
            self._disown(old)
            self._subscribe(old.topics, ())
            del self.members[record.member]
            self.reconciled.discard(record.member)
            if self.static_members.get(old.instance_id or "") == record.member:
                del self.static_members[old.instance_id or ""]

    def _apply_current(self, record: ConsumerCurrentStored) -> None:
        old = self.members.get(record.member)
        if record.value is not None:
            self._put(with_current(old or ConsumerMember(member_id=record.member), record.value))
        elif old is not None:
            gone = replace(old, state=MemberState.STABLE, assigned=NOTHING, revoking=NOTHING)
            self._put(gone)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._disown(old)
            if old.instance_id is not None and old.instance_id != member.instance_id:
                self.static_members.pop(old.instance_id, None)
        self._subscribe(() if old is None else old.topics, member.topics)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in (*member.assigned, *member.revoking):
            self.owners[partition] = member.member_id
        if member.is_reconciled_to(self.target_epoch):
            self.reconciled.add(member.member_id)
        else:
            self.reconciled.discard(member.member_id)

    def _disown(self, member: ConsumerMember) -> None:
        for partition in (*member.assigned, *member.revoking):
            # In a compacted journal the record of the next owner may come before this one's.
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _subscribe(self, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        if before == now:
            return
        subscribers = self.subscribers
        for name in now:
            subscribers[name] = subscribers.get(name, 0) + 1
        for name in before:
            if subscribers[name] == 1:
                del subscribers[name]
            else:
                subscribers[name] -= 1
        self.subscribed_count += len(now) - len(before)

    def _reckon_reconciled(self) -> None:
        self.reconciled = {
            member_id
            for member_id, member in self.members.items()
            if member.is_reconciled_to(self.target_epoch)
        }
