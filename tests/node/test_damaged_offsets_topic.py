"""Damage to one partition of `__consumer_offsets` is the trouble of its groups, and of no other."""

import struct
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.log.layout import LOG
from rig.clients.confluent import QUIET
from rig.running_node import running_node

PARTITIONS = 5
COMMITS = 8
LENGTH_AT = 8  # in a batch's header
HEADER_BYTES = 61
PATIENCE_SECONDS = 120.0
DAMAGED, SOUND = "orders", "bills"


def without_length(journal: bytearray, batch_at: int) -> None:
    journal[batch_at + LENGTH_AT : batch_at + LENGTH_AT + 4] = bytes(4)


def with_another_byte(journal: bytearray, batch_at: int) -> None:
    journal[batch_at + HEADER_BYTES + 20] ^= 0xFF


def at_another_offset(journal: bytearray, batch_at: int) -> None:
    journal[batch_at + 6] ^= 0x01  # 256 further than it was; no checksum covers it


def damage(data: Path, hurt: Callable[[bytearray, int], None]) -> None:
    """Hurts the fourth batch of the partition that one of the groups belongs to."""
    index = partition_of(DAMAGED, partition_count=PARTITIONS)
    assert index != partition_of(SOUND, partition_count=PARTITIONS)
    [path] = (data / "node-1" / f"{OFFSETS_TOPIC}-{index}").glob(f"*{LOG}")
    journal = bytearray(path.read_bytes())
    batch_at = 0
    for _ in range(3):
        (length,) = struct.unpack_from(">i", journal, batch_at + LENGTH_AT)
        batch_at += LENGTH_AT + 4 + length
    hurt(journal, batch_at)
    path.write_bytes(journal)


def consumer(bootstrap: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "log_level": QUIET,
            "enable.auto.commit": False,
        }
    )


def committed_by_two_groups(data: Path) -> None:
    settings = {"offsets_topic_num_partitions": str(PARTITIONS)}
    with running_node(data, **settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": QUIET})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_SECONDS)
        for group in (DAMAGED, SOUND):
            client = consumer(running.bootstrap, group)
            for offset in range(COMMITS):
                client.commit(
                    offsets=[TopicPartition("t", 0, offset, "x" * 4000)], asynchronous=False
                )
            client.close()


@pytest.mark.parametrize("hurt", [without_length, with_another_byte, at_another_offset])
def test_the_node_starts_and_serves_and_lists_the_other_groups(
    tmp_path: Path, hurt: Callable[[bytearray, int], None]
) -> None:
    committed_by_two_groups(tmp_path)
    damage(tmp_path, hurt)
    with running_node(tmp_path) as running:
        client = consumer(running.bootstrap, SOUND)
        [place] = client.committed([TopicPartition("t", 0)], timeout=PATIENCE_SECONDS)
        assert place.offset == COMMITS - 1
        client.close()
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": QUIET})
        listed = admin.list_consumer_groups().result(PATIENCE_SECONDS)
        assert [found.group_id for found in listed.valid] == [SOUND]
        assert listed.errors == []
