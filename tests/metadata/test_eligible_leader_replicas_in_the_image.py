"""What records say of eligible leader replicas is in the image, the controller's state and the
snapshot.
"""

from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.metadata.loader import Loader
from penstock.metadata.records import decode_record, encode_record
from penstock.metadata.snapshot import image_records
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.metadata_records.partition import (
    ClearElrRecord,
    PartitionChangeRecord,
)
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord
from rig.cluster import Cluster

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def with_eligible(*names: str) -> tuple[Cluster, dict[str, TopicId]]:
    """Topics of one partition, whose in-sync set is empty."""
    cluster = Cluster(3)
    ids = {name: cluster.create(name, replicas=3) for name in names}
    for topic_id in ids.values():
        cluster.follow(
            PartitionChangeRecord(
                topic_id=topic_id,
                partition_id=0,
                isr=[],
                leader=-1,
                eligible_leader_replicas=[ONE, TWO],
                last_known_elr=[THREE],
                leader_recovery_state=LeaderRecovery.RECOVERING,
                adding_replicas=[ONE],
                removing_replicas=[TWO],
            )
        )
    return cluster, ids


def partition(cluster: Cluster, name: str) -> PartitionImage:
    found = cluster.topic(name).partitions[0]
    assert cluster.state.topics_by_name[name].partitions[0] == found
    return found


def test_a_change_says_who_is_eligible_and_a_snapshot_says_the_same() -> None:
    cluster, _ = with_eligible("orders")
    found = partition(cluster, "orders")
    assert (found.isr, found.elr, found.last_known_elr) == ((), (ONE, TWO), (THREE,))
    assert found.leader_recovery_state == LeaderRecovery.RECOVERING
    assert (found.adding_replicas, found.removing_replicas) == ((ONE,), (TWO,))
    loader = Loader()
    loader.load(
        [decode_record(encode_record(record)) for record in image_records(cluster.image)],
        next_offset=cluster.image.offset,
        epoch=cluster.image.epoch,
    )
    assert loader.image == cluster.image


def test_a_change_that_does_not_mention_them_keeps_them() -> None:
    cluster, ids = with_eligible("orders")
    before = partition(cluster, "orders")
    cluster.follow(PartitionChangeRecord(topic_id=ids["orders"], partition_id=0, leader=-1))
    after = partition(cluster, "orders")
    assert (after.elr, after.last_known_elr) == (before.elr, before.last_known_elr)
    assert after.leader_recovery_state == LeaderRecovery.RECOVERING
    assert after.adding_replicas == before.adding_replicas


def test_clearing_those_of_a_topic_leaves_the_others() -> None:
    cluster, _ = with_eligible("orders", "clicks")
    before = partition(cluster, "orders")
    cluster.follow(ClearElrRecord(topic_name="orders"))
    after = partition(cluster, "orders")
    assert (after.elr, after.last_known_elr) == ((), ())
    assert after.partition_epoch == before.partition_epoch + 1
    assert partition(cluster, "clicks").elr == (ONE, TWO)


def test_clearing_those_of_all_topics_changes_only_partitions_that_have_some() -> None:
    cluster, _ = with_eligible("orders", "clicks")
    cluster.create("others", replicas=3)
    before = cluster.topic("others")
    cluster.follow(ClearElrRecord(topic_name=""))
    assert partition(cluster, "orders").elr == partition(cluster, "clicks").elr == ()
    assert cluster.topic("others") is before


def test_clearing_in_one_step_with_other_changes_sees_them() -> None:
    cluster, ids = with_eligible("orders", "clicks")
    cluster.follow(
        PartitionChangeRecord(
            topic_id=ids["orders"], partition_id=0, eligible_leader_replicas=[TWO]
        ),
        RemoveTopicRecord(topic_id=ids["clicks"]),
        ClearElrRecord(topic_name=""),
        PartitionChangeRecord(topic_id=ids["orders"], partition_id=0, last_known_elr=[ONE]),
    )
    after = partition(cluster, "orders")
    assert (after.elr, after.last_known_elr) == ((), (ONE,))
    assert "clicks" not in cluster.image.topics_by_name
