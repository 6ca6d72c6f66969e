"""A leader sends followers that are out of sync no more than its throttle allows."""

import asyncio
from dataclasses import replace

import pytest

from penstock.wire.messages.fetch import PartitionData
from rig.data_requests import bytes_of
from rig.fetching_follower import FetchingFollower, position, settle
from rig.held_clock import HeldClock
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

LISTED = {"leader.replication.throttled.replicas": f"0:{NODE}"}
RATE = 100_000


class Leading:
    """A broker that leads two partitions, with a follower that is in sync or not."""

    def __init__(self, broker: Broker, *, in_sync: bool = False, listed: bool = True) -> None:
        self.clock = HeldClock(broker.world.clock)
        self.clock.hold(later_ms=60_000)  # after all fetches of this test
        broker.services.world = replace(broker.world, clock=self.clock)
        self.throttle = broker.services.leader_throttle
        self.throttle.limit(RATE, now_ms=self.clock.monotonic_ms())
        self.broker = broker
        config = LISTED if listed else {}
        topic_id = broker.create_topic("t", 2, replicas=(NODE, OTHER), config=config)
        if not in_sync:
            topic = broker.services.image.topics_by_name["t"]
            alone = tuple(replace(one, isr=(NODE,), partition_epoch=1) for one in topic.partitions)
            broker.change_topic(replace(topic, partitions=alone))
        self.follower = FetchingFollower(broker, topic_id)

    def append(self, *, index: int = 0) -> None:
        partition = self.broker.partition("t", index)
        partition.append(produced(value=b"x" * 10_000), all_acks=False, now_ms=NOW_MS)


def size(answers: dict[int, PartitionData], index: int = 0) -> int:
    return len(bytes_of(answers[index])) if index in answers else 0


def test_nothing_is_sent_until_the_rate_has_made_up_for_it(broker: Broker) -> None:
    leading = Leading(broker)
    for _ in range(10):
        leading.append()
    follower = leading.follower
    leading.clock.hold(later_ms=10)  # room for 1,000 bytes: a whole batch is sent all the same
    first = size(follower.fetch(position(0), position(0, index=1)))
    assert 10_000 < first < 11_000
    assert size(follower.fetch(position(1))) == 0
    leading.clock.hold(later_ms=85)
    assert size(follower.fetch(position(1))) == 0
    leading.clock.hold(later_ms=20)
    assert size(follower.fetch(position(1))) == first


def test_what_fits_is_sent_at_once_after_a_pause(broker: Broker) -> None:
    leading = Leading(broker)
    for _ in range(20):
        leading.append()
    leading.clock.hold(later_ms=500)
    sent = size(leading.follower.fetch(position(0)))
    assert 40_000 < sent <= 50_000


def test_other_partitions_are_sent(broker: Broker) -> None:
    leading = Leading(broker)
    for index in (0, 1):
        leading.append(index=index)
    answers = leading.follower.fetch(position(0), position(0, index=1))
    assert size(answers, 0) == 0
    assert size(answers, 1) > 10_000


def test_a_fetch_waits_while_there_is_only_what_is_held_back(broker: Broker) -> None:
    async def scenario() -> None:
        leading = Leading(broker)
        leading.append()
        follower = leading.follower
        follower.fetch(position(0), position(0, index=1))
        waiting = follower.poll()
        await settle()
        assert not waiting.done()
        leading.append(index=1)
        answers = follower.taken(await waiting)
        assert size(answers, 0) == 0
        assert size(answers, 1) > 10_000
        leading.clock.hold(later_ms=500)
        answers = follower.taken(await follower.poll(position(1, index=1)))
        assert size(answers, 0) > 10_000

    asyncio.run(asyncio.wait_for(scenario(), 120))


@pytest.mark.parametrize("exempt", ["in sync", "not listed", "no rate"])
def test_no_other_follower_is_held_back(broker: Broker, exempt: str) -> None:
    leading = Leading(broker, in_sync=exempt == "in sync", listed=exempt != "not listed")
    if exempt == "no rate":
        leading.throttle.limit(None, now_ms=leading.clock.monotonic_ms())
    for offset in range(10):
        leading.append()
        assert size(leading.follower.fetch(position(offset))) > 10_000


def test_a_follower_that_the_watermark_waits_for_is_not_held_back(broker: Broker) -> None:
    leading = Leading(broker)
    partition = broker.partition("t")
    leading.append()
    assert size(leading.follower.fetch(position(0))) == 0
    broker_epoch = leading.follower.broker_epoch
    # It keeps up: the last time it had all that there was, and the log has grown since.
    for offset in (1, 2):
        partition.follower_fetched(OTHER, offset=offset - 1, broker_epoch=broker_epoch, now_ms=0)
        leading.append()
    partition.follower_fetched(OTHER, offset=2, broker_epoch=broker_epoch, now_ms=0)
    change = partition.in_sync_change(
        now_ms=0, lag_ms_max=10_000, can_join=lambda node, epoch: True
    )
    assert partition.followers.counts(OTHER), change
    leading.append()
    assert size(leading.follower.fetch(position(3))) > 10_000
