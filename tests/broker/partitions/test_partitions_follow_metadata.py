"""Partitions are made, changed and deleted as the metadata says, and survive a restart."""

from dataclasses import replace
from pathlib import Path

from penstock.metadata.image.image import ConfigResource, Delta
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.offset import LeaderEpoch
from penstock.replication.partition import Partition
from rig.data_requests import produce
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker


def test_a_topic_is_served_as_soon_as_it_is_there_and_not_after_its_deletion(
    broker: Broker,
) -> None:
    topic_id = broker.create_topic("t", 2)
    assert isinstance(broker.partitions.find("t", 1), Partition)
    assert isinstance(broker.partitions.find_by_id(topic_id, 1), Partition)
    broker.delete_topic("t")
    assert broker.partitions.find("t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.partitions.find_by_id(topic_id, 1) == ErrorCode.UNKNOWN_TOPIC_ID
    assert broker.directory.partitions_found() == {}


def test_a_topic_made_again_begins_empty(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(3))
    broker.delete_topic("t")
    broker.create_topic("t")
    assert broker.partition("t").log.end_offset == 0


def test_deleted_and_made_again_within_one_step(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(3))
    old = broker.services.image.topics_by_name["t"]
    new = replace(old, topic_id=type(old.topic_id)(b"n" * 16))
    broker.services.image = replace(
        broker.services.image, topics_by_name={"t": new}, topics_by_id={new.topic_id: new}
    )
    delta = Delta(topics_deleted=(old,), topics_created=(new,))
    broker.partitions.apply(delta, broker.services.image)
    broker.partitions.check()
    assert broker.partition("t").log.end_offset == 0
    assert broker.partition("t").topic_id == new.topic_id


def test_partitions_can_be_added(broker: Broker) -> None:
    broker.create_topic("t")
    produce(broker, "t", produced(3))
    topic = broker.services.image.topics_by_name["t"]
    broker.change_topic(replace(topic, partitions=topic.partitions * 3))
    assert broker.partition("t", 0).log.end_offset == 3
    assert broker.partition("t", 2).log.end_offset == 0


def test_a_new_leader_epoch_fences_the_old_one(broker: Broker) -> None:
    broker.create_topic("t")
    topic = broker.services.image.topics_by_name["t"]
    moved = replace(topic.partitions[0], leader_epoch=LeaderEpoch(9))
    broker.change_topic(replace(topic, partitions=(moved,)))
    assert broker.partition("t").check_leader_epoch(0) == ErrorCode.FENCED_LEADER_EPOCH


def test_leadership_that_moves_away_ends_here(broker: Broker) -> None:
    broker.create_topic("t", replicas=(NODE, OTHER))
    partition = broker.partition("t")
    topic = broker.services.image.topics_by_name["t"]
    moved = replace(topic.partitions[0], leader=OTHER, leader_epoch=LeaderEpoch(1))
    broker.change_topic(replace(topic, partitions=(moved,)))
    assert partition.has_ended
    assert broker.partitions.find("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    back = replace(moved, leader=NODE, leader_epoch=LeaderEpoch(2))
    broker.change_topic(replace(topic, partitions=(back,)))
    assert broker.partition("t").leader_epoch == 2


def test_settings_of_topics_and_of_the_broker_reach_the_logs(broker: Broker) -> None:
    broker.create_topic("t", config={"retention.ms": "5"})
    assert broker.partition("t").settings.retention_ms == 5
    broker.configure("t", {"retention.ms": "7"})
    assert broker.partition("t").settings.retention_ms == 7
    everyone = ConfigResource(ResourceKind.BROKER, "")
    image = broker.services.image
    broker.services.image = replace(
        image, configs={**image.configs, everyone: {"message.max.bytes": "4321"}}
    )
    broker.partitions.apply(Delta(configs_changed=(everyone,)), broker.services.image)
    assert broker.partition("t").settings.max_message_bytes == 4321
    assert broker.partition("t").settings.retention_ms == 7


def test_how_long_producers_are_remembered_can_change_while_logs_are_open(broker: Broker) -> None:
    broker.create_topic("t")
    everyone = ConfigResource(ResourceKind.BROKER, "")
    image = broker.services.image
    broker.services.image = replace(
        image, configs={**image.configs, everyone: {"producer.id.expiration.ms": "1000"}}
    )
    broker.partitions.apply(Delta(configs_changed=(everyone,)), broker.services.image)
    broker.create_topic("later")
    for topic in ("t", "later"):
        log = broker.partition(topic).log
        produce(broker, topic, produced(producer_id=7, epoch=0, sequence=0))
        log.expire_producers(NOW_MS + 999)
        assert list(log.producers.by_id) == [7]
        log.expire_producers(NOW_MS + 1000)
        assert list(log.producers.by_id) == []


def test_a_partition_that_cannot_be_opened_does_not_stop_the_others(broker: Broker) -> None:
    broker.world.disk.write_whole(f"{broker.directory.path}/t-1", b"not a directory")
    broker.create_topic("t", 3)
    assert isinstance(broker.partitions.find("t", 0), Partition)
    assert broker.partitions.find("t", 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(broker.partitions.find("t", 2), Partition)


def test_files_of_a_topic_that_is_gone_are_set_aside_and_kept(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("gone")
    first.create_topic("kept")
    produce(first, "gone", produced())
    first.close()
    second = Broker(tmp_path)
    second.create_topic("other")  # has the id that the topic which is gone had
    found = second.world.disk.names(second.directory.path)
    assert [name for name in found if name.startswith("gone-0.") and name.endswith("-stray")]
    assert [name for name in found if name.startswith("kept-0.") and name.endswith("-stray")]
    second.create_topic("gone")
    assert second.partition("gone").log.end_offset == 0
    second.close()


def test_records_and_producers_survive_a_restart(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("t", 2)
    now_ms = first.world.clock.now_ms()

    def batch() -> memoryview:
        return produced(2, producer_id=3, epoch=0, sequence=0, timestamp_ms=now_ms)

    produce(first, "t", batch(), index=1)
    first.close()
    second = Broker(tmp_path)
    second.create_topic("t", 2)
    assert second.directory.recovery.segments_scanned == 0
    assert second.partition("t", 1).high_watermark == 2
    assert produce(second, "t", batch(), index=1).base_offset == 0
    assert second.partition("t", 1).log.end_offset == 2
    second.close()


def test_a_partition_that_could_not_be_opened_can_be_deleted_and_made_again(
    tmp_path: Path,
) -> None:
    first = Broker(tmp_path)
    first.create_topic("t")
    segment = Path(first.partition("t").log.directory) / f"{0:020}.log"
    produce(first, "t", produced())
    first.directory.abandon()
    segment.unlink()
    segment.mkdir()
    second = Broker(tmp_path)
    second.create_topic("t")
    assert second.partitions.find("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    second.delete_topic("t")
    second.create_topic("t")
    assert second.partition("t").log.end_offset == 0
    second.close()


def test_a_damaged_claim_leaves_the_other_partitions_served(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("t", 2)
    damaged = Path(first.partition("t", 0).log.directory) / "partition.metadata"
    first.close()
    damaged.write_text("version: 9")
    second = Broker(tmp_path)
    second.create_topic("t", 2)
    assert second.partitions.find("t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(second.partitions.find("t", 1), Partition)
    second.close()
