"""A shard belongs to one leader epoch of its partition, also where the leader stays the same."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.coordinators.led_host import Stage
from penstock.broker.coordinators.led_shards import LedShards
from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.broker.coordinators.transaction_coordinator import transaction_batch
from penstock.model.error import ErrorCode, RequestError
from penstock.model.offset import LeaderEpoch
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.replication.partition import Partition
from penstock.transactions.records import TransactionStored
from rig.services import Broker


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[tuple[Broker, LedShards[LedTransactions]]]:
    broker = Broker(tmp_path)

    def lead(partition: Partition) -> LedTransactions:
        journal: PartitionJournal[TransactionStored] = PartitionJournal(
            partition,
            transaction_batch,
            clock=broker.world.clock,
            append_failed=broker.partitions.append_failed,
            want_sync=broker.partitions.want_sync,
        )
        return LedTransactions(
            partition,
            journal,
            send=lambda *_: None,
            stop=lambda _: None,
            has_opened=lambda: None,
        )

    async def load(led: LedTransactions) -> None:
        led.host.opened()

    yield (
        broker,
        LedShards(
            TRANSACTION_TOPIC,
            partitions=broker.partitions,
            clock=broker.world.clock,
            lead=lead,
            load=load,
            keep_time=lambda _: False,
        ),
    )
    broker.close()


def elect_again(broker: Broker) -> None:
    """The same leader, in another epoch."""
    topic = broker.services.image.topics_by_name[TRANSACTION_TOPIC]
    [partition] = topic.partitions
    elected = replace(
        partition,
        leader_epoch=LeaderEpoch(partition.leader_epoch + 2),
        partition_epoch=partition.partition_epoch + 2,
    )
    broker.change_topic(replace(topic, partitions=(elected,)))


def test_markers_carry_the_epoch_in_which_the_coordinator_was_elected_last(
    shards: tuple[Broker, LedShards[LedTransactions]],
) -> None:
    broker, led_shards = shards
    broker.create_topic(TRANSACTION_TOPIC)
    led_shards.follow(broker.services.image)
    [before] = led_shards
    before.host.opened()
    assert led_shards.at(0).shard.coordinator_epoch == 0
    elect_again(broker)
    assert before.host.stage is Stage.ENDED
    led_shards.follow(broker.services.image)
    [after] = led_shards
    assert after is not before
    assert after.host.partition is before.host.partition
    with pytest.raises(RequestError) as refused:
        led_shards.at(0)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    after.host.opened()
    assert led_shards.at(0).shard.coordinator_epoch == 2
    led_shards.close()


def test_a_change_of_the_in_sync_set_ends_no_shard(
    shards: tuple[Broker, LedShards[LedTransactions]],
) -> None:
    async def scenario() -> None:
        broker, led_shards = shards
        broker.create_topic(TRANSACTION_TOPIC)
        led_shards.follow(broker.services.image)
        [before] = led_shards
        topic = broker.services.image.topics_by_name[TRANSACTION_TOPIC]
        [partition] = topic.partitions
        broker.change_topic(replace(topic, partitions=(replace(partition, partition_epoch=1),)))
        led_shards.follow(broker.services.image)
        assert [*led_shards] == [before]
        led_shards.close()

    asyncio.run(scenario())
