"""Members of a classic group against a coordinator of a few lines, under any interleaving.

The coordinator keeps the protocol's promises and no more: a join is answered when all have joined,
a sync when the leader has synced, heartbeats tell of a rebalance.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.consume.membership.assignors import Assignor
from penstock.client.consume.membership.classic import ClassicMember, ClassicSubscription
from penstock.client.consume.membership.member import Assign, Lose, Question, Revoke
from penstock.client.network.routing import ClusterView, PartitionView, TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.wire.definition import Message
from penstock.wire.embedded import write_embedded
from penstock.wire.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.wire.messages.leave_group import LeaveGroupRequest
from penstock.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PARTITIONS = 5
ALL = {TopicPartition("t", index) for index in range(PARTITIONS)}


def view(partitions: int = PARTITIONS) -> ClusterView:
    parts = tuple(
        PartitionView(index=index, leader=None, leader_epoch=LeaderEpoch(0))
        for index in range(partitions)
    )
    topic = TopicView(name="t", topic_id=TopicId(b"t" * 16), internal=False, partitions=parts)
    return ClusterView(topics={"t": topic})


@dataclass
class Coordinator:
    generation: int = 0
    known: list[str] = field(default_factory=list)
    joined: dict[str, bytes] = field(default_factory=dict)
    rebalancing: bool = False
    shares: dict[str, bytes] | None = None
    synced: list[str] = field(default_factory=list)

    def ask(self, request: Message) -> None:
        match request:
            case JoinGroupRequest():
                if not self.rebalancing:
                    self.start_rebalance()
                self.joined[request.member_id] = request.protocols[0].metadata
            case SyncGroupRequest():
                self.synced.append(request.member_id)
                if request.assignments:
                    self.shares = {a.member_id: a.assignment for a in request.assignments}

    def answer(self, request: Message) -> Message | None:
        """None: not yet."""
        match request:
            case JoinGroupRequest():
                # One that waits has joined the rebalance that has begun meanwhile, too.
                self.joined.setdefault(request.member_id, request.protocols[0].metadata)
                if self.rebalancing and set(self.joined) >= set(self.known):
                    self.rebalancing = False
                    self.generation += 1
                return None if self.rebalancing else self._joined(request.member_id)
            case SyncGroupRequest():
                if self.rebalancing or request.generation_id != self.generation:
                    return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
                if self.shares is None:
                    return None
                return SyncGroupResponse(assignment=self.shares.get(request.member_id, b""))
            case HeartbeatRequest():
                if request.member_id not in self.known:
                    return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
                late = self.rebalancing or request.generation_id != self.generation
                code = ErrorCode.REBALANCE_IN_PROGRESS if late else ErrorCode.NONE
                return HeartbeatResponse(error_code=code)
            case _:
                raise AssertionError(request)

    def start_rebalance(self) -> None:
        self.rebalancing, self.joined, self.shares, self.synced = True, {}, None, []

    def _joined(self, member_id: str) -> JoinGroupResponse:
        leader = sorted(self.joined)[0]
        members = [
            JoinGroupResponseMember(member_id=one, metadata=metadata)
            for one, metadata in sorted(self.joined.items())
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            leader=leader,
            member_id=member_id,
            members=members if member_id == leader else [],
        )


class Group:
    """Members, each with at most one question on its way, and one clock."""

    def __init__(self, assignor: Assignor, count: int) -> None:
        self.coordinator = Coordinator()
        self.now_ms = 0
        self.questions: dict[str, Question] = {}
        self.members: dict[str, ClassicMember] = {}
        for number in range(count):
            self.add(assignor, f"m{number}")

    def add(self, assignor: Assignor, name: str) -> None:
        member = ClassicMember(
            ClassicSubscription(group="g", topics=("t",), assignor=assignor, heartbeat_ms=10)
        )
        member.answered(
            JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=name),
            view(),
            now_ms=self.now_ms,
        )
        self.members[name] = member
        self.coordinator.known.append(name)
        self.coordinator.start_rebalance()

    def remove(self, name: str) -> None:
        member = self.members.pop(name)
        question = member.leave()
        assert question is not None
        assert isinstance(question.request, LeaveGroupRequest)
        self.questions.pop(name, None)
        self.coordinator.known.remove(name)
        self.coordinator.start_rebalance()

    def step(self, name: str) -> None:
        """One step of one member: ask, be answered, or carry out a change; else time passes."""
        member = self.members[name]
        question = self.questions.get(name)
        if question is not None:
            reply = self.coordinator.answer(question.request)
            if reply is not None:
                del self.questions[name]
                member.answered(reply, view(), now_ms=self.now_ms)
                return
        change = member.take_change()
        if change is not None:
            member.carried_out(change, now_ms=self.now_ms)
        elif question is None:
            asked = member.request(view(), now_ms=self.now_ms)
            if asked is not None:
                self.questions[name] = asked
                self.coordinator.ask(asked.request)
                return
        self.now_ms += 1

    def check(self) -> None:
        owned = [place for member in self.members.values() for place in member.owned]
        assert len(owned) == len(set(owned)), "one partition, two owners"
        for member in self.members.values():
            assert member.error is None

    def settle(self) -> None:
        for _ in range(400):
            for name in list(self.members):
                self.step(name)
                self.check()
        owned = {place for member in self.members.values() for place in member.owned}
        assert owned == ALL


@pytest.mark.parametrize("assignor", list(Assignor))
@settings(max_examples=60, deadline=None)
@given(turns=st.lists(st.integers(0, 9), max_size=120), count=st.integers(1, 4))
def test_group_ends_complete_and_disjoint_under_any_interleaving(
    assignor: Assignor, turns: list[int], count: int
) -> None:
    group = Group(assignor, count)
    made = count
    for turn in turns:
        names = list(group.members)
        if turn == 8 and len(names) < 6:
            group.add(assignor, f"m{made}")
            made += 1
        elif turn == 9 and len(names) > 1:
            group.remove(names[0])
        else:
            group.step(names[turn % len(names)])
        group.check()
    group.settle()


def alone(assignor: Assignor) -> Group:
    group = Group(assignor, 1)
    group.settle()
    return group


def test_range_gives_up_all_before_it_joins_again() -> None:
    group = alone(Assignor.RANGE)
    [member] = group.members.values()
    member.metadata_changed(view(PARTITIONS + 1), now_ms=group.now_ms)
    assert member.take_change() == Revoke(tuple(sorted(ALL)))


def test_cooperative_keeps_what_it_owns_when_it_joins_again() -> None:
    group = alone(Assignor.COOPERATIVE_STICKY)
    [member] = group.members.values()
    group.questions.clear()
    member.unanswered(now_ms=group.now_ms)
    member.metadata_changed(view(PARTITIONS + 1), now_ms=group.now_ms)
    assert not member.has_change()
    question = member.request(view(PARTITIONS + 1), now_ms=group.now_ms + 1_000)
    assert question is not None
    assert isinstance(question.request, JoinGroupRequest)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("assignor", list(Assignor))
def test_member_that_the_group_has_given_up_loses_all(assignor: Assignor, code: ErrorCode) -> None:
    group = alone(assignor)
    [member] = group.members.values()
    member.answered(HeartbeatResponse(error_code=code), view(), now_ms=group.now_ms)
    assert member.request(view(), now_ms=group.now_ms) is None, "the loss comes first"
    change = member.take_change()
    assert change == Lose(tuple(sorted(ALL)))
    assert change is not None
    member.carried_out(change, now_ms=group.now_ms)
    question = member.request(view(), now_ms=group.now_ms)
    assert question is not None
    assert isinstance(question.request, JoinGroupRequest)
    assert question.request.member_id == ("" if code == ErrorCode.UNKNOWN_MEMBER_ID else "m0")


def test_partitions_taken_on_too_late_are_lost_again() -> None:
    group = Group(Assignor.COOPERATIVE_STICKY, 1)
    [member] = group.members.values()
    while not member.has_change():
        group.step("m0")
    change = member.take_change()
    assert isinstance(change, Assign)
    gone = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    member.answered(gone, view(), now_ms=group.now_ms)
    member.carried_out(change, now_ms=group.now_ms)
    assert member.take_change() == Lose(change.partitions)


def test_assignment_that_nobody_can_read_ends_the_membership() -> None:
    group = Group(Assignor.RANGE, 1)
    [member] = group.members.values()
    member.answered(SyncGroupResponse(assignment=b"\x00"), view(), now_ms=0)
    assert member.error is not None
    assert member.error.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def join_as_follower(member: ClassicMember) -> None:
    question = member.request(view(), now_ms=0)
    assert question is not None
    assert isinstance(question.request, JoinGroupRequest)
    joined = JoinGroupResponse(generation_id=1, leader="another", member_id="me")
    member.answered(joined, view(), now_ms=0)


def sync_to(member: ClassicMember, *indexes: int) -> None:
    """The member is told its share of the generation that it has joined."""
    topic = TopicPartitions(topic="t", partitions=list(indexes))
    share = write_embedded(ConsumerProtocolAssignment(assigned_partitions=[topic]), version=0)
    member.answered(SyncGroupResponse(assignment=share), view(), now_ms=0)


def test_cooperative_member_joins_again_when_what_it_was_given_cannot_be_taken_on_yet() -> None:
    member = ClassicMember(ClassicSubscription(group="g", topics=("t",)))
    join_as_follower(member)
    sync_to(member, 0, 1)
    taken_on = member.take_change()
    assert taken_on is not None
    member.carried_out(taken_on, now_ms=0)
    heartbeat = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    member.answered(heartbeat, view(), now_ms=0)
    join_as_follower(member)
    sync_to(member, 1, 2)
    given_up = member.take_change()
    assert given_up == Revoke((TopicPartition("t", 0),))
    assert given_up is not None
    member.carried_out(given_up, now_ms=0)
    later = member.take_change()
    assert later == Assign((TopicPartition("t", 2),))
    assert later is not None
    member.put_back(later)
    question = member.request(view(), now_ms=0)
    assert question is not None
    assert isinstance(question.request, JoinGroupRequest), "others wait for partition 0"


def test_member_whose_group_gave_it_up_before_it_took_anything_on_joins_anew() -> None:
    member = ClassicMember(ClassicSubscription(group="g", topics=("t",)))
    join_as_follower(member)
    sync_to(member, 0)
    taking_on = member.take_change()
    assert taking_on is not None
    gone = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    member.answered(gone, view(), now_ms=0)
    member.put_back(taking_on)
    question = member.request(view(), now_ms=0)
    assert question is not None
    assert isinstance(question.request, JoinGroupRequest)


def test_leader_needs_to_know_topics_for_its_assignment_alone() -> None:
    [member] = alone(Assignor.RANGE).members.values()
    assert not member.topics_needed
    group = Group(Assignor.RANGE, 1)
    [member] = group.members.values()
    while not member.topics_needed:
        group.step("m0")
    assert [*member.topics_needed] == ["t"]
    question = member.request(view(), now_ms=group.now_ms)
    assert question is not None
    assert isinstance(question.request, SyncGroupRequest)
    member.unanswered(now_ms=group.now_ms)
    assert not member.topics_needed
