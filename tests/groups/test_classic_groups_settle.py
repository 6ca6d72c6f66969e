"""Whatever happens to a classic group, once it is left in peace it comes to rest, complete.

Members come, go, die, restart, change their minds, lose their connections and send nonsense; time
passes, coordinators fail over, the journal refuses. At every step the group's invariants hold, and
every parked request belongs to a member that will be answered.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.machine.host import AppendFailed
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from rig.group_consumer import GROUP, PARTITIONS, GroupConsumer, Phase
from rig.group_world import GroupWorld

PROTOCOLS = (("range",), ("sticky", "range"), ("range", "sticky"))
ROUNDS_MAX = 200  # of half a second, until a group that is left in peace must be at rest


class ClassicGroupUnderStress(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 1000, 3000]), size_max=st.sampled_from([2, 4, 1000]))
    def begin(self, delay_ms: int, size_max: int) -> None:
        self.world = GroupWorld(
            {
                "group.initial.rebalance.delay.ms": str(delay_ms),
                "group.max.size": str(size_max),
            }
        )
        self.consumers: list[GroupConsumer] = []

    @rule(
        instance=st.sampled_from([None, None, "one", "two"]),
        protocols=st.sampled_from(PROTOCOLS),
        session_ms=st.sampled_from([6000, 10_000]),
    )
    def come(self, instance: str | None, protocols: tuple[str, ...], session_ms: int) -> None:
        consumer = GroupConsumer(
            self.world,
            name=f"c{len(self.consumers)}",
            instance_id=instance,
            protocols=protocols,
            session_ms=session_ms,
        )
        self.consumers.append(consumer)
        consumer.act()

    @precondition(lambda self: self._living())
    @rule(data=st.data(), times=st.integers(1, 3))
    def act(self, data: st.DataObject, times: int) -> None:
        consumer = data.draw(st.sampled_from(self._living()))
        for _ in range(times):
            consumer.act()

    @rule(times=st.integers(1, 4))
    def all_act(self, times: int) -> None:
        for _ in range(times):
            for consumer in self.consumers:
                consumer.act()

    @precondition(lambda self: self._living())
    @rule(data=st.data(), way=st.sampled_from(["die", "leave", "join", "change"]))
    def surprise(self, data: st.DataObject, way: str) -> None:
        consumer = data.draw(st.sampled_from(self._living()))
        match way:
            case "die":
                consumer.die()
            case "leave":
                consumer.leave()
            case "join":  # on another connection, perhaps while a request waits
                consumer.join()
            case "change":
                consumer.saying += b"!"
                consumer.join()

    @rule(generation=st.integers(-1, 4), instance=st.sampled_from([None, "one", "three"]))
    def nonsense(self, generation: int, instance: str | None) -> None:
        member_id = next((c.member_id for c in self.consumers if c.member_id), "nobody")
        heartbeat = HeartbeatRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.world.ask(heartbeat, version=4)

    @rule(instance=st.sampled_from(["one", "two", "three"]))
    def remove_by_name(self, instance: str) -> None:
        identity = MemberIdentity(group_instance_id=instance)
        self.world.ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), version=5)

    @rule(ms=st.sampled_from([1, 500, 3000, 6000, 9000, 30_000]))
    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @rule(refuses=st.booleans())
    def change_journal(self, refuses: bool) -> None:
        self.world.journal.error = AppendFailed("no room") if refuses else None

    @invariant()
    def parked_requests_are_remembered_by_members(self) -> None:
        if not hasattr(self, "world"):
            return
        tickets = [
            ticket
            for group in self.world.shard.groups.values()
            if isinstance(group, ClassicGroup)
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        ]
        assert sorted(tickets) == sorted(self.world.parked)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.journal.error = None
        for _ in range(ROUNDS_MAX):
            for consumer in self.consumers:
                consumer.act()
            self.world.pass_time(500)
            if self._is_at_rest():
                break
        else:
            raise AssertionError(f"no rest: {self.world.shard.groups.get(GROUP)}")
        assert not self.world.parked
        living = self._living()
        if living:
            assert len({consumer.generation for consumer in living}) == 1
            owned = sorted(number for consumer in living for number in consumer.partitions)
            assert owned == list(range(PARTITIONS))
        before = self.world.shard.groups.get(GROUP)
        self.world.fail_over()
        self._assert_same_assignment(before)

    def _living(self) -> list[GroupConsumer]:
        return [consumer for consumer in self.consumers if consumer.lives]

    def _is_at_rest(self) -> bool:
        living = self._living()
        group = self.world.shard.groups.get(GROUP)
        if not living:
            return group is None or (group.state is ClassicState.EMPTY and not group.pending)
        return (
            isinstance(group, ClassicGroup)
            and group.state is ClassicState.STABLE
            and all(c.phase is Phase.STABLE and c.ticket is None for c in living)
            and set(group.members) == {c.member_id for c in living}
            and not group.unsynced
        )

    def _assert_same_assignment(self, before: object) -> None:
        """What is at rest is in the journal."""
        after = self.world.shard.groups.get(GROUP)
        if not isinstance(before, ClassicGroup) or not isinstance(after, ClassicGroup):
            assert after is None
            assert before is None or not self._living()
            return
        assert (after.state, after.generation) == (before.state, before.generation)
        assert (after.leader, after.protocol_name) == (before.leader, before.protocol_name)
        assert {m.member_id: m.assignment for m in after.members.values()} == {
            m.member_id: m.assignment for m in before.members.values()
        }


TestClassicGroupUnderStress = ClassicGroupUnderStress.TestCase
TestClassicGroupUnderStress.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
