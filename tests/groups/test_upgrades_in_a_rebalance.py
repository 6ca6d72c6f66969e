"""A classic group that becomes one of the consumer protocol in the middle of a rebalance.

Cooperative consumers read on what they own until they are told otherwise: until then, nobody else
gets it.
"""

import pytest

from penstock.groups.classic.group import ClassicGroup, ClassicState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerState
from rig.group_world import GroupWorld
from rig.modern_consumer import ModernConsumer, Topics
from rig.upgradable_consumer import Named, UpgradableConsumer

GROUP = "orders"
COUNTS = {"t": 8}
ALL = frozenset(("t", number) for number in range(8))
ROUNDS_MAX = 80


class Cooperating:
    """Classic consumers, and one of the consumer protocol that comes later."""

    def __init__(self) -> None:
        self.topics = Topics(COUNTS)
        settings = {"group.initial.rebalance.delay.ms": "0"}
        self.world = GroupWorld(settings, image=self.topics.image())
        self.classic: list[UpgradableConsumer] = []
        self.modern = ModernConsumer(self.world, GROUP, "m", topics=("t",))

    @property
    def group(self) -> ClassicGroup | ConsumerGroup:
        return self.world.shard.groups[GROUP]

    def come(self) -> UpgradableConsumer:
        """Another classic consumer; all settle."""
        consumer = self.begin()
        self.act_until_settled()
        return consumer

    def begin(self) -> UpgradableConsumer:
        """Another one has joined, and waits for the others."""
        consumer = UpgradableConsumer(self.world, GROUP, topics=("t",), counts=COUNTS)
        self.classic.append(consumer)
        consumer.act()  # and is given its id
        consumer.act()
        return consumer

    def act_until_settled(self) -> None:
        for _ in range(ROUNDS_MAX):
            for consumer in self.classic:
                consumer.act()
            self.check()
            if self.modern.epoch:
                self.modern.act()
                self.check()
            is_stable = self.group.state in (ClassicState.STABLE, ConsumerState.STABLE)
            if is_stable and frozenset().union(*self.owned()) == ALL:
                return
            self.world.pass_time(1000)
        raise AssertionError((self.group, self.owned()))

    def check(self) -> None:
        owned = self.owned()
        assert sum(map(len, owned)) == len(frozenset().union(*owned)), owned

    def owned(self) -> list[Named]:
        of_modern = frozenset(("t", partition.partition) for partition in self.modern.owned)
        return [*(consumer.owned for consumer in self.classic), of_modern]


@pytest.fixture
def cooperating() -> Cooperating:
    return Cooperating()


def test_members_whose_assignment_came_to_nothing_keep_what_they_read(
    cooperating: Cooperating,
) -> None:
    first = cooperating.come()
    second = cooperating.begin()
    first.act()  # is told to join again
    first.act()
    second.listen()
    assert cooperating.group.state is ClassicState.COMPLETING
    cooperating.begin()
    assert cooperating.group.state is ClassicState.PREPARING
    assert first.owned == ALL
    cooperating.modern.act()
    assert isinstance(cooperating.group, ConsumerGroup)
    cooperating.check()
    cooperating.act_until_settled()


def test_a_member_that_has_not_heard_of_its_assignment_keeps_what_it_reads(
    cooperating: Cooperating,
) -> None:
    first = cooperating.come()
    second = cooperating.come()
    third = cooperating.begin()
    for consumer in (first, second):
        consumer.act()  # is told to join again
        consumer.act()
    first.listen()
    first.act()  # assigns
    assert cooperating.group.state is ClassicState.STABLE
    second.listen()
    third.listen()
    before = second.owned
    cooperating.modern.act()
    assert isinstance(cooperating.group, ConsumerGroup)
    assert second.owned == before
    cooperating.check()
    cooperating.act_until_settled()
