"""A broker without its network, in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.broker.coordinators.transaction_coordinator import transaction_batch
from penstock.model.settings.transactions import TransactionSettings
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.transactions.decision_context import DecisionContext
from penstock.transactions.records import TransactionStored
from rig.services import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.close()


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedTransactions]:
    """A shard of transactions that has begun to serve."""
    broker = Broker(tmp_path)
    broker.create_topic(TRANSACTION_TOPIC)
    partition = broker.partition(TRANSACTION_TOPIC)
    journal: PartitionJournal[TransactionStored] = PartitionJournal(
        partition,
        transaction_batch,
        clock=broker.world.clock,
        append_failed=broker.partitions.append_failed,
        want_sync=broker.partitions.want_sync,
    )
    shard = LedTransactions(
        partition, journal, send=lambda *_: None, stop=lambda _: None, has_opened=lambda: None
    )
    shard.host.replay((), next_offset=partition.log.end_offset)
    shard.loaded(
        DecisionContext(
            settings=TransactionSettings(),
            now_ms=0,
            monotonic_ms=0,
            fresh_producer_id=lambda: None,
        )
    )
    yield shard
    broker.close()
