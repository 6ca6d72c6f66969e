"""Whatever happened, a coordinator that takes over knows what was acked and nothing else.

Three coordinators are compared: the one that lived through it all, one that replays the whole
journal, and one that replays what compaction would leave of it.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.groups.group import Group
from penstock.groups.records import GroupRecord, OffsetCommitted, decode
from penstock.groups.replay import LatestRecords
from penstock.groups.shard import GroupShard
from penstock.model.error import ErrorCode
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.record import Record
from rig.group_world import GroupWorld, image_of
from rig.offset_requests import (
    Place,
    commit,
    commit_request,
    committed,
    delete_group,
    delete_offsets,
    forget_topic,
    join_alone,
    leave,
)

GROUPS = st.sampled_from(["g", "h"])
TOPICS = {"orders": 2, "bills": 1}
PLACES = st.sampled_from([("orders", 0), ("orders", 1), ("bills", 0)])
OFFSETS = st.dictionaries(PLACES, st.integers(0, 9), min_size=1)


class Coordinated(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld({"group.initial.rebalance.delay.ms": "0"}, image=image_of(TOPICS))
        self.acked: dict[str, dict[Place, int]] = {"g": {}, "h": {}}
        self.members: dict[str, tuple[str, int]] = {}
        self.decided: list[tuple[int, dict[str, dict[Place, int]]]] = []

    @initialize()
    def begin(self) -> None:
        self.note()

    def note(self) -> None:
        """What was acked when the journal had this length."""
        acked = {group: dict(offsets) for group, offsets in self.acked.items()}
        self.decided.append((len(self.world.journal.batches), acked))

    @rule(group=GROUPS, offsets=OFFSETS)
    def commits(self, group: str, offsets: dict[Place, int]) -> None:
        member, epoch = self.members.get(group, ("", -1))
        codes = commit(self.world, commit_request(group, offsets, member=member, epoch=epoch))
        assert set(codes.values()) == {ErrorCode.NONE}
        self.acked[group].update(offsets)
        self.note()

    @rule(group=GROUPS, offsets=OFFSETS)
    def a_stranger_commits(self, group: str, offsets: dict[Place, int]) -> None:
        codes = commit(self.world, commit_request(group, offsets, member="x", epoch=7))
        assert ErrorCode.NONE not in codes.values()

    @rule(group=GROUPS)
    def joins(self, group: str) -> None:
        if group not in self.members:
            self.members[group] = join_alone(self.world, group, topics=["orders"])

    @rule(group=GROUPS)
    def leaves(self, group: str) -> None:
        if group in self.members:
            leave(self.world, group, self.members.pop(group)[0])

    @rule(group=GROUPS, places=st.lists(PLACES, min_size=1, unique=True))
    def deletes_offsets(self, group: str, places: list[Place]) -> None:
        reply = delete_offsets(self.world, group, places)
        for topic in reply.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    self.acked[group].pop((topic.name, partition.partition_index), None)
        self.note()

    @rule(group=GROUPS)
    def deletes_the_group(self, group: str) -> None:
        code = delete_group(self.world, group)
        assert (code is ErrorCode.NON_EMPTY_GROUP) == (group in self.members)
        if code is ErrorCode.NONE:
            self.acked[group].clear()
        self.note()

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def a_topic_is_deleted(self, topic: str) -> None:
        forget_topic(self.world, topic)
        for offsets in self.acked.values():
            for place in [place for place in offsets if place[0] == topic]:
                del offsets[place]
        self.note()

    @rule(ms=st.integers(1, 9000))
    def time_passes(self, ms: int) -> None:
        for group, (member, epoch) in self.members.items():
            commit(
                self.world, commit_request(group, {("orders", 0): 1}, member=member, epoch=epoch)
            )
            self.acked[group]["orders", 0] = 1
        self.note()
        self.world.pass_time(ms)

    @rule()
    def fails_over(self) -> None:
        self.world.fail_over()

    @invariant()
    def all_that_was_acked_is_told(self) -> None:
        for group, offsets in self.acked.items():
            assert committed(self.world, group) == offsets

    @invariant()
    def the_journal_tells_the_whole_state(self) -> None:
        living = self.world.shard
        replayed, compacted = GroupShard(), GroupShard()
        for record in self.world.journal.records():
            replayed.apply(record)
        for record in latest(self.world):
            compacted.apply(record)
        for found in (replayed, compacted):
            found.check()
            assert offsets_of(found) == offsets_of(living)
            assert stored_groups(found) == stored_groups(living)

    def teardown(self) -> None:
        """A crash after any decision: what was acked by then is in what was written by then."""
        for length, acked in self.decided:
            found = GroupShard()
            for key, value in self.world.journal.batches[:length]:
                record = decode(key, value)
                assert record is not None
                found.apply(record)
            for group, offsets in acked.items():
                assert offsets_of(found).get(group, {}) == offsets


def latest(world: GroupWorld) -> list[GroupRecord]:
    """Through a batch, as a partition would hold them."""
    collected = LatestRecords()
    for offset, (key, value) in enumerate(world.journal.batches):
        batch = build_batch([Record(key, value, timestamp_ms=0)], base_offset=Offset(offset))
        collected.add(BatchView(memoryview(batch)))
    return list(collected.take())


def offsets_of(shard: GroupShard) -> dict[str, dict[Place, int]]:
    return {
        group: {
            (topic, partition): value.offset
            for topic, partitions in shard.offsets.of_group(group).items()
            for partition, value in partitions.items()
        }
        for group in shard.offsets
    }


def stored_groups(shard: GroupShard) -> dict[str, tuple[object, ...]]:
    """What failovers keep. A group that never had a generation lives as long as its offsets."""
    return {
        name: described(group)
        for name, group in shard.groups.items()
        if name in shard.offsets or described(group)[0]
    }


def described(group: Group) -> tuple[object, ...]:
    generation = getattr(group, "generation", None)
    return generation, tuple(sorted(group.members))


TestCoordinated = Coordinated.TestCase
TestCoordinated.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_record_that_is_written_again_takes_the_place_of_its_last_writing() -> None:
    world = GroupWorld(image=image_of(TOPICS))
    for offset in (1, 2, 3):
        commit(world, commit_request("g", {("orders", 0): offset, ("bills", 0): offset}))
    records = latest(world)
    assert [
        (record.topic, record.value.offset)
        for record in records
        if isinstance(record, OffsetCommitted) and record.value is not None
    ] == [("orders", 3), ("bills", 3)]
