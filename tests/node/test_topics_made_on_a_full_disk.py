"""A topic that was created while the disk was full is used as soon as there is room again."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.consume.group_offsets import Committed, commit_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused
from penstock.client.produce.producer import Producer
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError
from penstock.world.ports import Address
from penstock.world.real import real_world
from penstock.world.real_file import RealFile
from rig.running_node import RunningNode, running_node

TOPIC = "orders"
SECONDS_MAX = 60


class SmallDisk(RealDisk):
    """Without room for new files below `full`."""

    full: Path | None = None

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        if create and self.full is not None and Path(path).is_relative_to(self.full):
            raise DiskError(path, "No space left on device", full=True)
        return super().open(path, create=create, writable=writable)


def within_time(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, SECONDS_MAX))


def clients_of(node: RunningNode) -> Cluster:
    world = real_world(inline=True)
    host, _, port = node.bootstrap.rpartition(":")
    return Cluster(world.network, world.clock, [Address(host=host, port=int(port))])


def test_records_are_taken_and_offsets_committed_once_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator's own partition is one of those that were not made."""
    disk = SmallDisk()
    records = tmp_path / "records"
    settings = {
        "log_dirs": str(records),
        "metadata_log_dir": str(tmp_path / "metadata"),
        "offsets_topic_num_partitions": "1",
    }

    async def scenario(node: RunningNode) -> None:
        async with clients_of(node) as cluster, Producer(cluster) as producer:
            disk.full = records
            new = [NewTopic(name=name, partitions=1, replicas=1) for name in (TOPIC, OFFSETS_TOPIC)]
            told = await Admin(cluster).create_topics(new)
            assert not any(isinstance(one, Refused) for one in told.values())
            for name in (TOPIC, OFFSETS_TOPIC):
                assert f"partition={name}-0 state=offline" in caplog.text
            disk.full = None
            assert (await (await producer.send(TOPIC, b"1"))).offset == 0
            place = TopicPartition(TOPIC, 0)
            committed = {place: Committed(offset=Offset(1))}
            assert await commit_offsets(Coordinators(cluster), "g", committed) == {place: None}

    with running_node(tmp_path / "data", disk=disk, **settings) as node:
        within_time(scenario(node))
