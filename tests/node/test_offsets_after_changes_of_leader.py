"""ListOffsets, OffsetsForLeaderEpoch and DeleteRecords of a partition whose leaders are killed: a
new leader answers as the former one did, and followers do not answer.
"""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.model.error import ErrorCode
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rig.clients.confluent import QUIET
from rig.cluster_questions import is_whole, until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, PenstockSoftware, ReplicatedCluster
from rig.failover.questions import partition_states, until_in_sync
from rig.reassigning import begin, create_on, until_settled

TOPIC = "orders"
LATEST, EARLIEST = -1, -2
CONSUMER, DEBUGGING = -1, -2  # who asks: the second is answered by followers too
PREFERRED = 0
WAIT_SECONDS, WAIT_MS = 60, 60_000
REFUSED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
# Leaders change when the test says so.
SETTINGS = {**BRISK_SESSIONS, "auto.leader.rebalance.enable": "false"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(PenstockSoftware(), tmp_path, settings=SETTINGS) as made:
        made.start()
        until("the cluster is whole", lambda: is_whole(made))
        create_on(made.addresses[1], TOPIC, [[1, 2, 3]])
        until_in_sync(made, TOPIC)
        yield made


def test_new_leaders_know_the_ends_of_former_epochs_and_where_records_were_deleted(
    cluster: ReplicatedCluster,
) -> None:
    at = cluster.addresses
    first = until_led(cluster, by=1)
    produce(cluster, 10)

    cluster.nodes[1].end(signal.SIGKILL)
    leader = until_replaced(cluster)
    [follower] = {2, 3} - {leader}
    second = until_led(cluster, by=leader)
    assert second > first
    assert end_of(at[leader], first) == (10, first)
    produce(cluster, 5)
    ends = [(10, first), (15, second)]
    assert [end_of(at[leader], epoch) for epoch in (first, second)] == ends
    assert listed(at[leader], EARLIEST) == (0, first)
    assert listed(at[leader], LATEST) == (15, second)
    refused = [listed(at[follower], EARLIEST), listed(at[follower], LATEST)]
    refused += [end_of(at[follower], first), delete(at[follower], 7)]
    assert refused == [REFUSED] * 4

    # It waits for the follower that lives, and not for node 1.
    assert delete(at[leader], 7) == (ErrorCode.NONE, 7)
    assert listed(at[leader], EARLIEST) == (7, first)
    assert listed(at[follower], EARLIEST, asks=DEBUGGING) == (7, first)
    cluster.start(1)
    until_in_sync(cluster, TOPIC)
    until(
        "node 1 begins where the others do",
        lambda: listed(at[1], EARLIEST, asks=DEBUGGING) == (7, first),
    )

    # Node 1 was away when the second leader was elected and records were deleted.
    for elected, end in ((follower, 20), (1, 25)):
        prefer(cluster, elected, *({1, 2, 3} - {elected}))
        epoch = until_led(cluster, by=elected)
        produce(cluster, 5)
        ends.append((end, epoch))
        assert [end_of(at[elected], epoch) for _, epoch in ends] == ends
        assert listed(at[elected], EARLIEST) == (7, first)
        assert listed(at[elected], LATEST) == (end, epoch)


def until_replaced(cluster: ReplicatedCluster) -> int:
    """Who leads instead of node 1: a new controller elects whom it has heard from."""
    found: list[int | None] = []

    def is_replaced() -> bool:
        found.append(partition_states(cluster.addresses[2], TOPIC)[0].leader)
        return found[-1] in (2, 3)

    until("another one leads", is_replaced)
    assert found[-1] is not None
    return found[-1]


def until_led(cluster: ReplicatedCluster, *, by: int) -> int:
    """The leader epoch, once the node knows that it leads."""
    found: list[int] = []

    def leads() -> bool:
        state = partition_states(cluster.addresses[by], TOPIC)[0]
        found.append(state.leader_epoch)
        return state.leader == by

    until(f"node {by} leads", leads)
    return found[-1]


def produce(cluster: ReplicatedCluster, count: int) -> None:
    """Acked by all that are in sync: the high watermark is in the epoch of the leader by then."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "log_level": QUIET, "enable.idempotence": True}
    )
    for _ in range(count):
        producer.produce(TOPIC, b"value")
    assert producer.flush(WAIT_SECONDS) == 0


def prefer(cluster: ReplicatedCluster, *nodes: int) -> None:
    """The replicas in this order: the first one is elected."""
    address = cluster.addresses[nodes[0]]
    begin(address, TOPIC, *nodes)
    until_settled(address)
    elect = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=WAIT_MS)
    with closing(Dialogue(address, "")) as dialogue:
        assert dialogue.exchange(elect, version=2).error_code == ErrorCode.NONE


def listed(address: str, timestamp: int, *, asks: int = CONSUMER) -> tuple[int, int]:
    """Offset and leader epoch, or an error code and -1; so the next two."""
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=asks, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    )
    with closing(Dialogue(address, "")) as dialogue:
        [answer] = dialogue.exchange(request, version=7).topics[0].partitions
    return (answer.error_code, -1) if answer.error_code else (answer.offset, answer.leader_epoch)


def end_of(address: str, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    )
    with closing(Dialogue(address, "")) as dialogue:
        [answer] = dialogue.exchange(request, version=4).topics[0].partitions
    if answer.error_code:
        return answer.error_code, -1
    return answer.end_offset, answer.leader_epoch


def delete(address: str, offset: int) -> tuple[int, int]:
    """The error code, and where the log begins then."""
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[asked])], timeout_ms=WAIT_MS
    )
    with closing(Dialogue(address, "")) as dialogue:
        [answer] = dialogue.exchange(request, version=2).topics[0].partitions
    return answer.error_code, answer.low_watermark
