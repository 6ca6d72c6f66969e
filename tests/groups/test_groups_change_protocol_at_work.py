"""Members of both protocols come and go in one group: no partition is owned twice, and all settle.

The group is upgraded by the first member of the consumer protocol, and downgraded when the last of
them goes; the others speak the classic protocol all the while.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerState
from rig.group_world import GroupWorld
from rig.modern_consumer import ModernConsumer, Topics
from rig.upgradable_consumer import Named, UpgradableConsumer

GROUP = "orders"
COUNTS = {"t": 5, "u": 2}
ROUNDS_MAX = 80
Consumer = ModernConsumer | UpgradableConsumer


class MixedGroupUnderStress(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.topics = Topics(COUNTS)
        settings = {"group.initial.rebalance.delay.ms": "0"}
        self.world = GroupWorld(settings, image=self.topics.image())
        self.consumers: list[Consumer] = []

    @rule(modern=st.booleans(), instance=st.sampled_from([None, None, "i1"]))
    def come(self, modern: bool, instance: str | None) -> None:
        if any(consumer.instance_id == instance for consumer in self.living()):
            instance = None
        consumer: Consumer
        if modern:
            name = f"m{len(self.consumers)}"
            consumer = ModernConsumer(
                self.world, GROUP, name, topics=("t", "u"), instance_id=instance
            )
        else:
            consumer = UpgradableConsumer(
                self.world, GROUP, topics=("t", "u"), counts=COUNTS, instance_id=instance
            )
        self.consumers.append(consumer)
        consumer.act()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), times=st.integers(1, 3))
    def act(self, data: st.DataObject, times: int) -> None:
        consumer = data.draw(st.sampled_from(self.living()))
        for _ in range(times):
            consumer.act()

    @rule()
    def all_act(self) -> None:
        for consumer in self.living():
            consumer.act()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), way=st.sampled_from(["leave", "die"]))
    def go(self, data: st.DataObject, way: str) -> None:
        getattr(data.draw(st.sampled_from(self.living())), way)()

    @rule(ms=st.sampled_from([500, 5000, 20_000]))
    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @invariant()
    def the_coordinator_gives_no_partition_to_two(self) -> None:
        group = self.world.shard.groups.get(GROUP) if hasattr(self, "world") else None
        if isinstance(group, ConsumerGroup):
            group.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for _ in range(ROUNDS_MAX):
            for consumer in self.living():
                consumer.act()
            if self.is_complete():
                break
            self.world.pass_time(1000)
        assert self.is_complete(), (self.world.shard.groups.get(GROUP), self.living())
        before = self.world.shard.groups.get(GROUP)
        self.world.fail_over()
        if self.living():
            assert type(self.world.shard.groups.get(GROUP)) is type(before)

    def living(self) -> list[Consumer]:
        return [c for c in self.consumers if c.lives] if hasattr(self, "consumers") else []

    def owned(self, consumer: Consumer) -> Named:
        if isinstance(consumer, UpgradableConsumer):
            return consumer.owned
        names = {self.topics.topic_id(name): name for name in self.topics.counts}
        return frozenset((names[p.topic_id], p.partition) for p in consumer.owned)

    def is_complete(self) -> bool:
        group, living = self.world.shard.groups.get(GROUP), self.living()
        if not living:
            return group is None or group.state in (ClassicState.EMPTY, ConsumerState.EMPTY)
        if group is None or group.state not in (ClassicState.STABLE, ConsumerState.STABLE):
            return False
        any_modern = any(isinstance(consumer, ModernConsumer) for consumer in living)
        owned = [p for consumer in living for p in self.owned(consumer)]
        wanted = {(name, n) for name, count in COUNTS.items() for n in range(count)}
        if isinstance(group, ClassicGroup) and any_modern:
            return False
        is_whole = len(group.members) == len(living) and set(owned) == wanted
        return is_whole and len(owned) == len(wanted)


TestMixedGroupUnderStress = MixedGroupUnderStress.TestCase
TestMixedGroupUnderStress.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
