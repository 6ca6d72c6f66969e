"""A snapshot says exactly what the log before it said; when one is made, and what it replaces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.image.image import Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import decode_record, encode_record
from penstock.metadata.snapshot import (
    Retention,
    SnapshotBounds,
    StoredSnapshot,
    image_records,
    retained_from,
    snapshot_due,
)
from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import NodeId
from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from rig.cluster import Cluster
from rig.metadata_histories import histories, live

BOUNDS = SnapshotBounds(log_bytes_max=20 * MIB, interval_ms_max=3_600_000)
UNLIMITED = Retention(size_bytes_max=-1, age_ms_max=-1)


def read_back(image: Image) -> Image:
    loader = Loader()
    stored = [decode_record(encode_record(record)) for record in image_records(image)]
    loader.load(stored, next_offset=image.offset, epoch=image.epoch)
    loader.image.check()
    return loader.image


@settings(max_examples=200)
@given(history=histories)
def test_a_reader_of_the_snapshot_gets_the_same_image(history: list[tuple[object, ...]]) -> None:
    image = live(history).image
    assert read_back(image) == image


def test_everything_that_an_image_holds_is_in_the_snapshot() -> None:
    cluster = Cluster(brokers=3)
    topic_id = cluster.create("orders", partitions=4, replicas=3, retention_ms="5")
    cluster.create("clicks", partitions=1)
    resource = alter.AlterConfigsResource(
        resource_type=ResourceKind.GROUP,
        resource_name="g",
        configs=[
            alter.AlterableConfig(
                name="consumer.session.timeout.ms", config_operation=Operation.SET, value="50000"
            )
        ],
    )
    cluster.ask(alter.IncrementalAlterConfigsRequest(resources=[resource]))
    epochs = {node: broker.epoch for node, broker in cluster.image.brokers.items()}
    cluster.follow(
        RegisterBrokerRecord(
            broker_id=4, broker_epoch=99, rack="r", in_controlled_shutdown=True, log_dirs=[]
        ),
        FenceBrokerRecord(id=2, epoch=epochs[NodeId(2)]),
        BrokerRegistrationChangeRecord(
            broker_id=3,
            broker_epoch=epochs[NodeId(3)],
            in_controlled_shutdown=1,
            log_dirs=[bytes([7]) * 16, bytes([8]) * 16],
        ),
        PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1, isr=[]),
        PartitionChangeRecord(topic_id=topic_id, partition_id=2, leader=3, isr=[3]),
    )
    image = cluster.image
    assert image.brokers[NodeId(3)].in_controlled_shutdown
    assert len(image.brokers[NodeId(3)].directories) == 2
    assert image.topics_by_id[topic_id].partitions[1].leader is None
    assert read_back(image) == image


@pytest.mark.parametrize(
    ("log_bytes", "snapshot_bytes", "elapsed_ms", "due"),
    [
        (0, 0, 10**9, False),  # nothing would be different
        (32 * KIB - 1, 0, 0, False),
        (32 * KIB, 0, 0, True),
        (32 * KIB, 32 * KIB, 0, False),  # twice what the snapshot has
        (64 * KIB, 32 * KIB, 0, True),
        (20 * MIB - 1, 50 * MIB, 0, False),
        (20 * MIB, 50 * MIB, 0, True),  # the setting is an upper bound
        (1, 50 * MIB, 3_600_000, True),
        (1, 50 * MIB, 3_599_999, False),
    ],
)
def test_a_snapshot_is_due_when_the_log_since_the_last_one_has_outgrown_it(
    log_bytes: int, snapshot_bytes: int, elapsed_ms: int, due: bool
) -> None:
    assert due == snapshot_due(
        BOUNDS, log_bytes=log_bytes, snapshot_bytes=snapshot_bytes, elapsed_ms=elapsed_ms
    )


def test_an_interval_of_zero_is_none() -> None:
    bounds = SnapshotBounds(log_bytes_max=20 * MIB, interval_ms_max=0)
    assert not snapshot_due(bounds, log_bytes=1, snapshot_bytes=0, elapsed_ms=10**12)


def stored(*ages_ms: int) -> list[StoredSnapshot]:
    return [
        StoredSnapshot(offset=Offset(100 * index), size_bytes=1000, timestamp_ms=10_000 - age_ms)
        for index, age_ms in enumerate(ages_ms)
    ]


@pytest.mark.parametrize(
    ("ages_ms", "retention", "first"),
    [
        ([5], UNLIMITED, 0),
        ([9, 5], UNLIMITED, 0),
        ([30, 20, 9, 5], UNLIMITED, 2),  # the latest two
        ([9, 5], Retention(size_bytes_max=2500, age_ms_max=-1), 0),
        ([9, 5], Retention(size_bytes_max=2499, age_ms_max=-1), 1),  # with 500 of the log
        ([9], Retention(size_bytes_max=0, age_ms_max=0), 0),  # the latest stays
        ([9, 5], Retention(size_bytes_max=-1, age_ms_max=9), 0),
        ([9, 5], Retention(size_bytes_max=-1, age_ms_max=8), 1),
    ],
)
def test_the_latest_snapshot_stays_and_the_one_before_it_within_the_retention(
    ages_ms: list[int], retention: Retention, first: int
) -> None:
    assert retained_from(stored(*ages_ms), retention, log_bytes=500, now_ms=10_000) == first


@given(
    ages=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    size_max=st.integers(-1, 6000),
    age_max=st.integers(-1, 100),
)
def test_what_is_retained_is_never_nothing(ages: list[int], size_max: int, age_max: int) -> None:
    retention = Retention(size_bytes_max=size_max, age_ms_max=age_max)
    snapshots = stored(*sorted(ages, reverse=True))
    assert 0 <= retained_from(snapshots, retention, log_bytes=0, now_ms=10_000) < len(snapshots)
