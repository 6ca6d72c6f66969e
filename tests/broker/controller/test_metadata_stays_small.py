"""However often a node starts and whatever changes, its metadata log and snapshots stay small."""

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.incremental_alter_configs import API as ALTER
from penstock.model.configs import Operation, ResourceKind
from penstock.model.limit import KIB, SNAPSHOT_LOG_BYTES_MIN
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk

DIRECTORY = "/data/__cluster_metadata-0"
PARTITIONS = 30
# Two snapshots, and what is written until the third: of a cluster that is smaller than 8 KiB.
BYTES_MAX = 3 * SNAPSHOT_LOG_BYTES_MIN + 2 * 8 * KIB


async def create(control: Control) -> None:
    topic = CreatableTopic(name="orders", num_partitions=PARTITIONS, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
    reply = await control.ask(CREATE_TOPICS, request, CreateTopicsResponse)
    assert reply.topics[0].error_code == 0


async def alter_often(control: Control) -> None:
    for number in range(1500):
        change = alter.AlterableConfig(
            name="retention.ms", config_operation=Operation.SET, value=str(10_000 + number)
        )
        resource = alter.AlterConfigsResource(
            resource_type=ResourceKind.TOPIC, resource_name="orders", configs=[change]
        )
        request = alter.IncrementalAlterConfigsRequest(resources=[resource])
        reply = await control.ask(ALTER, request, alter.IncrementalAlterConfigsResponse)
        assert reply.responses[0].error_code == 0
        assert control.log.size_bytes <= BYTES_MAX


async def sizes(control: Control) -> tuple[int, int]:
    """What the next start would read at most, and how often the partitions were led anew."""
    partition = control.image.topics_by_name["orders"].partitions[PARTITIONS - 1]
    disk = control.world.disk
    snapshots = [name for name in disk.names(DIRECTORY) if name.endswith(".checkpoint")]
    stored = sum(disk.size(f"{DIRECTORY}/{name}") for name in snapshots)
    return control.log.size_bytes + stored, partition.leader_epoch


def test_many_starts_after_crashes_leave_the_metadata_small() -> None:
    disk = MemoryDisk()
    run_with(disk, create)
    written = 0
    for start in range(1, 150):
        size_bytes, leader_epoch = run_with(disk, sizes)
        assert leader_epoch == 2 * start, "nobody leads until the broker is unfenced"
        assert size_bytes <= BYTES_MAX
        written += PARTITIONS * 30  # a record for each partition, at least
    assert written > BYTES_MAX, "without snapshots it would be larger"


def test_many_changes_leave_the_metadata_small() -> None:
    disk = MemoryDisk()
    run_with(disk, create)
    run_with(disk, alter_often)
    size_bytes, _ = run_with(disk, sizes)
    assert size_bytes <= BYTES_MAX
