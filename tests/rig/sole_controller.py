"""A controller that is the only voter, on a disk in memory: for servers that say what it is."""

from dataclasses import replace

from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.quorum_driver import sole_voter
from penstock.log.opening import open_log
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, TopicPartition
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.topic import TopicSettings
from penstock.world.ports import World
from rig.memory_disk import MemoryDisk


def sole_controller(world: World, *, node_id: NodeId, settings: BrokerSettings) -> LocalController:
    disk = MemoryDisk()
    directory = f"/data/{METADATA_TOPIC}-0"
    disk.make_directory(directory)
    local = LocalController(
        log=open_log(
            disk=disk,
            directory=directory,
            partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            settings=TopicSettings(),
            now_ms=0,
        ),
        world=replace(world, disk=disk),
        member=sole_voter(node_id, directory_id=b"d" * 16, cluster_id="test"),
        settings=settings,
        publish=lambda delta, image: None,
    )
    local.open()
    return local
