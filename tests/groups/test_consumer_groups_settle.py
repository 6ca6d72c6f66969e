"""Whatever happens to a consumer group, no partition is ever given to two, and peace completes it.

Members come, go, die, restart under their instance ids, change subscriptions, are slow to give up
partitions, lose replies and join again under the same id; they take on and give up partitions while
a request is under way. Topics come, grow and go; time passes, coordinators fail over, the journal
refuses. At every step no two members own one partition, and the journal gives the same group. Once
all is quiet, every partition that is subscribed to is owned by one member.
"""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.groups.consumer.group import ConsumerGroup, ConsumerState
from penstock.groups.shard import GroupShard
from penstock.machine.host import AppendFailed
from rig.group_world import GroupWorld
from rig.modern_consumer import ModernConsumer, Topics

GROUP = "orders"
NAMES = ("a1", "a2", "b1", "b2")
SUBSCRIPTIONS = st.one_of(
    st.tuples(st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple), st.none()),
    st.tuples(st.none(), st.sampled_from(["a.*", "b.", ".*1", "a1|b2"])),
)
ROUNDS_MAX = 60


class ConsumerGroupUnderStress(RuleBasedStateMachine):
    @initialize(
        assignors=st.sampled_from(["uniform,range", "range"]),
        most=st.sampled_from([3, 99]),
        are_terse=st.lists(st.booleans(), max_size=3),
    )
    def begin(self, assignors: str, most: int, are_terse: list[bool]) -> None:
        self.topics = Topics({"a1": 5, "b1": 3})
        self.world = GroupWorld(
            {"group.consumer.assignors": assignors, "group.consumer.max.size": str(most)},
            image=self.topics.image(),
        )
        self.consumers: list[ModernConsumer] = []
        for is_terse in are_terse:  # members that share partitions
            self.come((("a1",), None), instance=None, is_terse=is_terse, reply_lost=False)

    @rule(
        subscription=SUBSCRIPTIONS,
        instance=st.sampled_from([None, None, "i1", "i2"]),
        is_terse=st.booleans(),
        reply_lost=st.booleans(),
    )
    def come(
        self,
        subscription: tuple[tuple[str, ...] | None, str | None],
        instance: str | None,
        is_terse: bool,
        reply_lost: bool,
    ) -> None:
        topics, regex = subscription
        if any(consumer.instance_id == instance for consumer in self.living()):
            instance = None  # of two with one name, one would stay outside for ever
        consumer = ModernConsumer(
            self.world,
            GROUP,
            f"m{len(self.consumers)}",
            topics=topics,
            regex=regex,
            instance_id=instance,
            rebalance_ms=20_000,
            is_terse=is_terse,
        )
        self.consumers.append(consumer)
        consumer.heartbeat(reply_lost=reply_lost)

    @precondition(lambda self: self.living())
    @rule(data=st.data(), way=st.sampled_from(["act", "slow", "acknowledge", "rejoin"]))
    def work(self, data: st.DataObject, way: str) -> None:
        consumer = data.draw(st.sampled_from(self.living()))
        match way:
            case "act":
                consumer.act()
            case "slow":
                consumer.heartbeat()
            case "acknowledge":
                consumer.acknowledge()
            case "rejoin":
                consumer.rejoin()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), reply_lost=st.booleans(), acknowledges_meanwhile=st.booleans())
    def heartbeat(
        self, data: st.DataObject, reply_lost: bool, acknowledges_meanwhile: bool
    ) -> None:
        consumer = data.draw(st.sampled_from(self.living()))
        consumer.heartbeat(reply_lost=reply_lost, acknowledges_meanwhile=acknowledges_meanwhile)

    @rule()
    def all_act(self) -> None:
        for consumer in self.living():
            consumer.act()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), way=st.sampled_from(["leave", "step out", "die"]))
    def go(self, data: st.DataObject, way: str) -> None:
        consumer = data.draw(st.sampled_from(self.living()))
        match way:
            case "leave":
                consumer.leave()
            case "step out" if consumer.instance_id is not None:
                consumer.leave(to_return=True)
            case _:
                consumer.die()

    @precondition(lambda self: self.living())
    @rule(data=st.data(), subscription=SUBSCRIPTIONS)
    def resubscribe(
        self, data: st.DataObject, subscription: tuple[tuple[str, ...] | None, str | None]
    ) -> None:
        topics, regex = subscription
        data.draw(st.sampled_from(self.living())).subscribe(topics=topics, regex=regex)

    @rule(name=st.sampled_from(NAMES), way=st.sampled_from(["make or grow", "delete"]))
    def change_topics(self, name: str, way: str) -> None:
        if way == "delete":
            if name in self.topics.counts:
                self.topics.delete(name)
        elif name in self.topics.counts:
            self.topics.grow(name, 2)
        else:
            self.topics.create(name, 4)
        self.world.image = self.topics.image()

    @rule(ms=st.sampled_from([100, 5000, 20_000, 45_000]))
    def pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @rule(refuses=st.booleans())
    def change_journal(self, refuses: bool) -> None:
        self.world.journal.error = AppendFailed("no room") if refuses else None

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        owned = [p for c in self.living() if self.is_known(c) for p in c.owned | c.told]
        assert len(owned) == len(set(owned)), sorted(owned)

    @rule()
    def read_the_journal(self) -> None:
        """It gives the same group."""
        shard = GroupShard()
        for record in self.world.journal.records():
            shard.apply(record)
        assert self.comparable(shard) == self.comparable(self.world.shard)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.journal.error = None
        for _ in range(ROUNDS_MAX):
            for consumer in self.living():
                consumer.act()
            if self.is_complete():
                break
            self.world.pass_time(2000)
        assert self.is_complete(), self.group()
        self.read_the_journal()

    def living(self) -> list[ModernConsumer]:
        return [c for c in self.consumers if c.lives] if hasattr(self, "consumers") else []

    def is_known(self, consumer: ModernConsumer) -> bool:
        """One that was put out and has not heard of it yet cannot be kept from reading."""
        group = self.group()
        return group is not None and consumer.member_id in group.members and consumer.epoch > 0

    def group(self) -> ConsumerGroup | None:
        group = self.world.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def is_complete(self) -> bool:
        group, living = self.group(), self.living()
        if not living:
            return group is None or group.state is ConsumerState.EMPTY
        names = {name for c in living for name in self.subscribed(c)}
        wanted = {p for name in names for p in self.topics.partitions(name)}
        owned = [p for c in living for p in c.owned]
        assert group is not None
        # One that died may still have the name of one that waits to join.
        all_joined = group.members.keys() == {consumer.member_id for consumer in living}
        if group.state is not ConsumerState.STABLE or not all_joined:
            return False
        for consumer in living:
            allowed = {
                p for name in self.subscribed(consumer) for p in self.topics.partitions(name)
            }
            assert consumer.owned <= allowed
        assert set(owned) == wanted, group
        assert len(owned) == len(wanted), group
        return True

    def subscribed(self, consumer: ModernConsumer) -> list[str]:
        by_name = [name for name in consumer.topics or () if name in self.topics.counts]
        patterns = {"a.*": "a", "b.": "b"}
        by_regex = [
            name
            for name in self.topics.counts
            if consumer.regex is not None
            and (
                name.startswith(patterns.get(consumer.regex, "-"))
                or (consumer.regex == ".*1" and name.endswith("1"))
                or (consumer.regex == "a1|b2" and name in ("a1", "b2"))
            )
        ]
        return by_name + by_regex

    def comparable(self, shard: GroupShard) -> object:
        group = shard.groups.get(GROUP)
        return replace(group, seen=None) if isinstance(group, ConsumerGroup) else group


TestConsumerGroupUnderStress = ConsumerGroupUnderStress.TestCase
TestConsumerGroupUnderStress.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
