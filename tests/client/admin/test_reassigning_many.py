"""More partitions than a broker takes in one request are asked for in several."""

from penstock.client.admin.reassignments import (
    Election,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
    without_leader_wanted,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.routing import ClusterView, PartitionView, TopicView
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, NodeId, TopicPartition
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.offset import LeaderEpoch
from penstock.testing import Broker
from rig.client_cluster import run_with_cluster

MANY = [TopicPartition("unknown", index) for index in range(DECISION_RECORDS_MAX + 1)]


def test_each_of_many_partitions_has_a_result(penstock: Broker) -> None:
    async def work(cluster: Cluster) -> None:
        moved = await alter_reassignments(cluster, {place: [1] for place in MANY})
        cancelled = await alter_reassignments(cluster, dict.fromkeys(MANY, None))
        elected = await elect_leaders(cluster, Election.PREFERRED, MANY)
        for results in (moved, cancelled, elected):
            assert list(results) == MANY
            codes = {None if one is None else one.code for one in results.values()}
            assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await list_reassignments(cluster, MANY) == {}

    run_with_cluster(penstock.bootstrap, work)


def test_elections_of_all_are_asked_where_one_is_needed() -> None:
    def partition(index: int, leader: int | None) -> PartitionView:
        return PartitionView(
            index=index,
            leader=None if leader is None else NodeId(leader),
            leader_epoch=LeaderEpoch(0),
            replicas=(NodeId(1), NodeId(2)),
        )

    partitions = tuple(partition(index, leader) for index, leader in enumerate((1, 2, None)))
    topic = TopicView(name="t", topic_id=NO_TOPIC_ID, internal=False, partitions=partitions)
    view = ClusterView(topics={"t": topic})
    for election, expected in ((Election.PREFERRED, [1, 2]), (Election.UNCLEAN, [2])):
        found = without_leader_wanted(view, election)
        assert found == [TopicPartition("t", index) for index in expected]
