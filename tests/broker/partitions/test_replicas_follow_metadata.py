"""A broker has a log of each partition that it is a replica of, whoever leads it."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.retention import Retention
from penstock.metadata.image.image import ConfigResource, Delta
from penstock.metadata.image.topic import LeaderRecovery
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.follower import Follower, Position
from penstock.replication.marker import Marker
from penstock.wire.messages.fetch import PartitionData
from penstock.world.errors import DiskError
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

THIRD = NodeId(3)
REPLICAS = (NODE, OTHER, THIRD)


def followed(broker: Broker, name: str = "t", index: int = 0) -> Follower:
    found = broker.partitions.replica(TopicPartition(name, index))
    assert isinstance(found, Follower), found
    return found


def change(broker: Broker, index: int = 0, **changes: Any) -> None:
    """Another partition epoch of topic t, as a controller would have decided."""
    topic = broker.services.image.topics_by_name["t"]
    before = topic.partitions[index]
    epoch = before.leader_epoch + ("leader" in changes)
    after = replace(
        before,
        partition_epoch=before.partition_epoch + 1,
        **{"leader_epoch": LeaderEpoch(epoch), **changes},
    )
    partitions = (*topic.partitions[:index], after, *topic.partitions[index + 1 :])
    broker.change_topic(replace(topic, partitions=partitions))


def append(broker: Broker, count: int) -> None:
    partition = broker.partition("t")
    for _ in range(count):
        partition.append(produced(), all_acks=False, now_ms=NOW_MS)


def test_a_broker_follows_where_another_one_leads(broker: Broker) -> None:
    broker.create_topic("t", 2, leader=OTHER, replicas=REPLICAS, leader_epoch=4)
    follower = followed(broker)
    assert (follower.leader, follower.leader_epoch) == (OTHER, 4)
    assert broker.applied.followed == [followed(broker, index=index) for index in (0, 1)]
    assert list(broker.partitions) == broker.partitions.followed() == broker.applied.followed
    assert broker.partitions.led() == broker.applied.led == []
    assert broker.partitions.find("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    found = broker.partitions.find_by_id(follower.topic_id, 1)
    assert found == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.directory.partitions_found()) == 2


def test_a_partition_without_leader_is_followed_and_nobody_is_asked(broker: Broker) -> None:
    broker.create_topic("t", leader=None, replicas=REPLICAS)
    assert followed(broker).leader is None
    assert followed(broker).position() is None


def test_partitions_of_others_have_no_log_here(broker: Broker) -> None:
    broker.create_topic("t", 2, leader=OTHER, replicas=(OTHER, THIRD))
    assert list(broker.partitions) == []
    assert broker.directory.partitions_found() == {}
    assert broker.partitions.find("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_takes_over_the_log_and_the_high_watermark_of_the_leader(
    broker: Broker,
) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    append(broker, 5)
    led = broker.partition("t")
    for node in (OTHER, THIRD):
        led.follower_fetched(node, offset=3, now_ms=0)
    assert led.high_watermark == 3
    change(broker, leader=OTHER)
    assert led.has_ended
    follower = followed(broker)
    assert broker.applied.followed == [follower]
    assert follower.log is led.log
    assert (follower.log.end_offset, follower.high_watermark) == (5, 3)
    assert follower.leader_epoch == 1


def end_transaction(broker: Broker) -> None:
    """Records of a transaction, its marker and one more record; the marker is not committed."""
    led = broker.partition("t")
    guard = led.guards.take(ProducerId(7), sequence=0)
    data = produced(2, producer_id=7, epoch=0, sequence=0, transactional=True)
    led.append(data, all_acks=False, now_ms=NOW_MS, guard=guard)
    marker = Marker(
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=0,
        committed=True,
    )
    led.end_transaction(marker, now_ms=NOW_MS)
    append(broker, 1)
    for node in (OTHER, THIRD):
        led.follower_fetched(node, offset=2, now_ms=0)


def damage(broker: Broker, index: int = 0) -> None:
    """Whoever reads the log now gets an error."""
    log = broker.directories.log_of(TopicPartition("t", index))
    assert log is not None
    [segment] = Path(log.directory).glob("*.log")
    os.truncate(segment, 0)


def test_a_change_of_leader_reads_no_log(broker: Broker) -> None:
    """Markers above the high watermark are known: finding them in a log can take seconds, in which
    this broker would do nothing else.
    """
    broker.create_topic("t", replicas=REPLICAS)
    end_transaction(broker)
    damage(broker)
    change(broker, leader=OTHER)
    follower = followed(broker)
    assert (follower.high_watermark, follower.last_stable_offset) == (2, 0)
    change(broker, leader=NODE)
    again = broker.partition("t")
    assert (again.high_watermark, again.last_stable_offset) == (2, 0)
    for node in (OTHER, THIRD):
        again.follower_fetched(node, offset=4, now_ms=0)
    assert again.last_stable_offset == 4
    broker.partitions.check()


class Slot:
    code: ErrorCode | None = None

    def done(self, code: ErrorCode) -> None:
        self.code = code


def test_acks_that_wait_are_told_that_another_broker_leads(broker: Broker) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    append(broker, 1)
    slot = Slot()
    broker.partition("t").acks.add(Offset(1), slot)
    change(broker, leader=OTHER)
    assert slot.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_begins_with_the_high_watermark_that_it_knew_as_follower(
    broker: Broker,
) -> None:
    broker.create_topic("t", replicas=REPLICAS)
    append(broker, 5)
    change(broker, leader=OTHER)
    follower = followed(broker)
    position = follower.position()
    assert isinstance(position, Position)
    follower.take(
        position, PartitionData(high_watermark=2, log_start_offset=0, records=b""), now_ms=NOW_MS
    )
    change(broker, leader=NODE)
    assert follower.has_ended
    assert broker.applied.followed == [follower]
    led = broker.partition("t")
    assert broker.applied.led == [led]
    assert led.log is follower.log
    assert (led.high_watermark, led.log.end_offset, led.leader_epoch) == (2, 5, 2)


def test_a_leader_that_was_elected_uncleanly_is_recovering(broker: Broker) -> None:
    broker.create_topic("t", leader=OTHER, replicas=REPLICAS)
    change(broker, leader=NODE, isr=(NODE,), leader_recovery_state=LeaderRecovery.RECOVERING)
    assert broker.partition("t").is_recovering


def test_followers_are_named_again_only_when_their_leader_or_its_epoch_changes(
    broker: Broker,
) -> None:
    broker.create_topic("t", 3, leader=OTHER, replicas=REPLICAS)
    change(broker, index=1, leader=THIRD)
    assert broker.applied.followed == [followed(broker, index=1)]
    assert followed(broker, index=1).leader == THIRD
    change(broker, index=2, isr=(NODE, OTHER))
    assert broker.applied.followed == []
    assert followed(broker, index=2).partition_epoch == 1


def test_what_is_no_replica_any_more_is_deleted(broker: Broker) -> None:
    broker.create_topic("t", 2, leader=OTHER, replicas=REPLICAS)
    follower = followed(broker)
    change(broker, replicas=(OTHER, THIRD), isr=(OTHER, THIRD))
    assert follower.has_ended
    assert broker.applied.followed == [follower]
    assert list(broker.directory.partitions_found()) == [("t", 1)]
    change(broker, replicas=REPLICAS)
    assert followed(broker).log.end_offset == 0


def test_settings_reach_the_logs_of_followers(broker: Broker) -> None:
    broker.create_topic("t", leader=OTHER, replicas=REPLICAS)
    broker.configure("t", {"retention.ms": "7"})
    assert followed(broker).settings.retention_ms == 7


def test_a_deleted_topic_is_followed_no_more(broker: Broker) -> None:
    broker.create_topic("t", leader=OTHER, replicas=REPLICAS)
    follower = followed(broker)
    broker.delete_topic("t")
    assert follower.has_ended
    assert broker.applied.followed == [follower]
    assert broker.directory.partitions_found() == {}


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_that_was_removed_meanwhile_is_deleted_at_the_start(
    tmp_path: Path, clean: bool
) -> None:
    """Also after a crash between the change of the metadata and that of the files."""
    first = Broker(tmp_path)
    first.create_topic("t", 2, leader=OTHER, replicas=REPLICAS)
    if clean:
        first.close()
    else:
        first.directories.abandon()
    second = Broker(tmp_path)
    asyncio.run(second.directories.recover(now_ms=NOW_MS))
    second.create_topic("t", 2, leader=OTHER, replicas=(OTHER, THIRD))
    assert second.directory.partitions_found() == {}
    names = second.world.disk.names(second.directory.path)
    assert len([name for name in names if name.endswith("-delete")]) == 2
    assert not [name for name in names if name.endswith("-stray")]
    second.close()


def test_files_of_another_topic_of_that_name_are_set_aside(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("earlier")
    first.create_topic("t", leader=OTHER, replicas=REPLICAS)
    first.close()
    second = Broker(tmp_path)
    second.create_topic("t", leader=OTHER, replicas=(OTHER, THIRD))
    names = second.world.disk.names(second.directory.path)
    assert [name for name in names if name.startswith("t-0.") and name.endswith("-stray")]
    second.close()


def test_followers_of_a_directory_that_fails_are_offline(tmp_path: Path) -> None:
    broker = Broker(tmp_path, directories=("a", "b"))
    broker.create_topic("t", 2, leader=OTHER, replicas=REPLICAS)
    path = str(tmp_path / "b")
    lost = [one for one in broker.partitions if one.log.directory.startswith(path)]
    assert len(lost) == 1
    broker.partitions.take_offline(path, DiskError(path, "broken"))
    broker.partitions.check()
    assert lost[0].has_ended
    assert lost[0].is_offline
    assert len(list(broker.partitions)) == 1
    assert not broker.partitions.is_offline("t", lost[0].name.partition)  # it is led elsewhere


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_starts_with_the_high_watermark_that_it_knew(tmp_path: Path, clean: bool) -> None:
    first = Broker(tmp_path)
    first.create_topic("t", replicas=REPLICAS)
    append(first, 5)
    for node in (OTHER, THIRD):
        first.partition("t").follower_fetched(node, offset=3, now_ms=0)
    if clean:
        first.close()
    else:
        Housekeeping(
            partitions=first.partitions, settings=first.settings, world=first.world
        ).save_watermarks()
        first.directories.abandon()
    second = Broker(tmp_path)
    second.create_topic("t", replicas=REPLICAS, leader_epoch=1)
    led = second.partition("t")
    assert (led.high_watermark, led.log.end_offset) == (3, 5)
    second.close()
    third = Broker(tmp_path)
    third.create_topic("t", leader=OTHER, replicas=REPLICAS, leader_epoch=2)
    assert followed(third).high_watermark == 3
    third.close()


def test_a_log_that_cannot_be_read_when_it_is_opened_is_offline_alone(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("t", 2, replicas=REPLICAS)
    end_transaction(first)
    first.directories.abandon()
    second = Broker(tmp_path)
    asyncio.run(second.directories.recover(now_ms=NOW_MS))
    damage(second)
    second.create_topic("t", 2, replicas=REPLICAS, leader_epoch=1)
    assert second.partitions.find("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert second.partition("t", 1).leader_epoch == 1
    second.partitions.check()
    second.directories.abandon()


def test_a_node_without_followers_writes_no_high_watermarks(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.create_topic("t")
    broker.close()
    assert "replication-offset-checkpoint" not in broker.world.disk.names(broker.directory.path)


def test_records_expire_and_are_synced_on_followers_too(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    config = {"retention.ms": "1000", "flush.messages": "1"}
    broker.create_topic("t", replicas=(NODE, OTHER), config=config)
    append(broker, 5)
    led = broker.partition("t")
    led.follower_fetched(OTHER, offset=4, now_ms=0)
    change(broker, leader=OTHER)
    follower = followed(broker)
    follower.log.roll()
    keeping = Housekeeping(
        partitions=broker.partitions, settings=broker.settings, world=broker.world
    )
    keeping.want_due()

    async def rounds() -> None:
        await broker.partitions.sync_wanted()
        assert follower.log.recovery_point == 5
        retention = Retention(
            partitions=broker.partitions, settings=broker.settings, world=broker.world
        )
        await retention.expire()
        assert follower.log.start_offset == 0, "what is not committed does not expire"
        position = follower.position()
        assert position is not None
        committed = PartitionData(high_watermark=5, log_start_offset=0, records=b"")
        follower.take(position, committed, now_ms=NOW_MS)
        await retention.expire()
        assert follower.log.start_offset == 5

    asyncio.run(rounds())
    broker.close()


def test_settings_come_before_the_in_sync_set_that_was_judged_by_them(broker: Broker) -> None:
    """By the new minimum the replica that leaves stays eligible: it must lack nothing committed."""
    broker.create_topic("t", replicas=(NODE, OTHER), config={"min.insync.replicas": "1"})
    append(broker, 1)
    topic = broker.services.image.topics_by_name["t"]
    partition = replace(topic.partitions[0], isr=(NODE,), partition_epoch=1)
    topic = replace(topic, partitions=(partition,))
    broker._set_config("t", {"min.insync.replicas": "2"})
    broker._with_topic(topic)
    resource = ConfigResource(ResourceKind.TOPIC, "t")
    broker._apply(Delta(topics_changed=(topic,), configs_changed=(resource,)))
    assert broker.partition("t").in_sync_count == 1
    assert broker.partition("t").high_watermark == 0


def test_a_leader_that_is_deposed_commits_nothing_by_settings_that_came_with_it(
    broker: Broker,
) -> None:
    """Its successor was elected by the old minimum, and may lack what only this log has."""
    broker.create_topic("t", replicas=(NODE, OTHER), config={"min.insync.replicas": "2"})
    change(broker, isr=(NODE,))
    append(broker, 1)
    assert broker.partition("t").high_watermark == 0
    slot = Slot()
    broker.partition("t").acks.add(Offset(1), slot)
    topic = broker.services.image.topics_by_name["t"]
    after = replace(
        topic.partitions[0],
        leader=OTHER,
        leader_epoch=LeaderEpoch(1),
        isr=(OTHER,),
        partition_epoch=2,
    )
    topic = replace(topic, partitions=(after,))
    broker._set_config("t", {"min.insync.replicas": "1"})
    broker._with_topic(topic)
    resource = ConfigResource(ResourceKind.TOPIC, "t")
    broker._apply(Delta(topics_changed=(topic,), configs_changed=(resource,)))
    assert slot.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert followed(broker).high_watermark == 0
    assert followed(broker).settings.min_insync_replicas == 1
