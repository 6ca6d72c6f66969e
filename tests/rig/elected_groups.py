"""A group coordinator that is elected for a journal with records, and has not read them yet."""

from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from penstock.broker.coordinators.group_batches import group_batch
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.partition_journal import PartitionJournal
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import GroupRecord
from penstock.metadata.image.image import Delta
from penstock.records.compression import Codec
from rig.services import NODE, Broker


def write_group_journal(broker: Broker, batches: Iterable[list[GroupRecord]]) -> None:
    """The topic of offsets is made, with these batches in its one partition."""
    broker.create_topic(OFFSETS_TOPIC)
    journal: PartitionJournal[GroupRecord] = PartitionJournal(
        broker.partition(OFFSETS_TOPIC),
        partial(group_batch, codec=Codec.NONE),
        clock=broker.world.clock,
        append_failed=broker.partitions.append_failed,
        want_sync=broker.partitions.want_sync,
    )
    for batch in batches:
        journal.append(batch)


def elected_groups(broker: Broker) -> GroupCoordinator:
    """Nothing is loaded before it runs."""
    groups = GroupCoordinator(
        node_id=NODE,
        world=broker.world,
        partitions=broker.partitions,
        controller=cast(Any, None),
        settings=broker.settings.groups,
    )
    image = broker.services.image
    created = Delta(topics_created=(image.topics_by_name[OFFSETS_TOPIC],))
    groups.apply(created, image, broker.settings.groups)
    return groups
