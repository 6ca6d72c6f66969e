"""Which replicas clients see as offline: those whose broker, or log directory, is not there."""

from penstock.broker.request.partition_view import view_partition
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster
from rig.replicated_topic import partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def offline(cluster: Cluster) -> list[int]:
    view = view_partition(cluster.image, partition_of(cluster), "PLAINTEXT")
    return view.offline_replicas


def test_a_replica_of_a_fenced_or_forgotten_broker_is_offline() -> None:
    cluster = replicated(ONE, TWO, THREE)
    assert offline(cluster) == []
    cluster.fence(TWO)
    assert offline(cluster) == [TWO]
    cluster.ask(UnregisterBrokerRequest(broker_id=THREE))
    assert offline(cluster) == [TWO, THREE]


def test_a_replica_whose_directory_is_gone_is_offline() -> None:
    cluster = replicated(ONE, TWO, THREE)
    request = cluster.registration(TWO, incarnation=1)
    request.log_dirs = [b"n" * 16]
    cluster.ask(request)
    cluster.unfence(TWO)
    assert offline(cluster) == [TWO]


def test_a_partition_without_leader_tells_so_with_its_last_epoch() -> None:
    cluster = replicated(ONE)
    cluster.fence(ONE)
    view = view_partition(cluster.image, partition_of(cluster), "PLAINTEXT")
    assert (view.error_code, view.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition_of(cluster).leader_epoch == 1
