"""Brokers come, go and come back in any order: what holds of every partition after each step.

1. If the in-sync set is empty, the last leader is known. All of its members are unfenced, unless it
   has one that is the only broker and has just registered again.
2. A partition has no leader only while nobody is usable who is in sync, or, if nobody is, eligible.
3. The leader is in sync, and unfenced with the same exception.
4. Two processes never lead in one leader epoch, and leader epochs only grow. The exception is the
   only broker of a cluster, which stopped cleanly.
5. A broker that is gone, or restarted without loss, leaves no in-sync set to silent brokers alone.
"""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.controller.state import Place
from penstock.metadata.image.topic import PartitionImage
from penstock.metadata.loader import Loader
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster

NODES = [NodeId(node) for node in range(1, 5)]
nodes = st.sampled_from(NODES)
steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(["a", "b", "c"]), st.integers(1, 4)),
    st.tuples(st.just("fence"), nodes),
    st.tuples(st.just("fence all"), nodes),
    st.tuples(st.just("new controller"), nodes),
    st.tuples(st.just("time passes"), nodes),
    st.tuples(st.just("heartbeat"), nodes),
    st.tuples(st.just("want fence"), nodes),
    st.tuples(st.just("shut down"), nodes),
    st.tuples(st.just("restart"), nodes, st.booleans()),
    st.tuples(st.just("unregister"), nodes),
)


def take(cluster: Cluster, step: tuple[object, ...], incarnation: int) -> None:
    match step:
        case ("create", str(name), int(replicas)):
            cluster.try_create(name, partitions=3, replicas=replicas)
            return
        case (_, int(node), *_):
            node_id = NodeId(node)
        case _:
            raise AssertionError(step)
    broker = cluster.state.brokers.get(node_id)
    match step:
        case ("restart", _, bool(cleanly)):
            epoch = broker.epoch if broker is not None and cleanly else None
            cluster.sessions.ended(node_id)
            cluster.register(node_id, incarnation=incarnation, previous_broker_epoch=epoch)
        case ("new controller", _):
            cluster.elect()
        case ("time passes", _):
            cluster.now_ms += cluster.settings.broker_session_timeout_ms // 2
        case _ if broker is None:
            pass
        case ("fence", _):
            cluster.fence(node_id)
        case ("fence all", _):
            cluster.fence(*cluster.state.brokers)
        case ("heartbeat", _):
            cluster.beat(node_id)
        case ("want fence", _):
            cluster.heartbeat(node_id, want_fence=True)
        case ("shut down", _):
            cluster.beat(node_id, want_shut_down=True)
        case ("unregister", _):
            cluster.ask(UnregisterBrokerRequest(broker_id=node_id))
        case _:
            raise AssertionError(step)


def partitions(cluster: Cluster) -> Iterator[tuple[Place, PartitionImage]]:
    for topic in cluster.image.topics_by_id.values():
        for index, partition in enumerate(topic.partitions):
            yield Place(topic.topic_id, index), partition


def check(cluster: Cluster, partition: PartitionImage) -> None:
    brokers = cluster.image.brokers
    candidates = partition.isr or partition.elr
    present = {node for node in candidates if node in brokers and not brokers[node].fenced}
    usable = {node for node in present if brokers[node].is_usable}
    assert partition.isr or partition.last_known_elr  # 1
    assert len(partition.isr) < 2 or present == set(partition.isr)
    assert partition.leader is not None or not usable  # 2
    if partition.leader is not None:  # 3
        assert partition.leader in partition.isr
        assert partition.leader in present or partition.isr == (partition.leader,)


@settings(max_examples=150, deadline=None)
@given(brokers=st.integers(1, 4), history=st.lists(steps, max_size=30))
def test_no_history_of_brokers_breaks_a_partition(
    brokers: int, history: list[tuple[object, ...]]
) -> None:
    cluster = Cluster(brokers)
    led: dict[tuple[Place, int], tuple[NodeId, int]] = {}
    epochs: dict[Place, int] = {}
    cluster.create("orders", partitions=4)
    for incarnation, step in enumerate([("heartbeat", NODES[0]), *history], start=1):
        alone = len(cluster.state.brokers) == 1
        silent = {node for node in NODES if cluster.sessions.is_silent(node, cluster.now_ms)}
        before = {place: partition.isr for place, partition in partitions(cluster)}
        try:
            take(cluster, step, incarnation)
        except RequestError as error:
            assert error.code == ErrorCode.BROKER_NOT_AVAILABLE, error
        for place, partition in partitions(cluster):
            check(cluster, partition)
            if 0 < len(partition.isr) < len(before.get(place, ())) and (
                step[0] in ("fence", "fence all") or (step[0], step[-1]) == ("restart", True)
            ):
                assert not silent.issuperset(partition.isr)  # 5
            assert partition.leader_epoch >= epochs.get(place, 0)  # 4
            epochs[place] = partition.leader_epoch
            if partition.leader is not None:
                process = (partition.leader, cluster.image.brokers[partition.leader].epoch)
                key = (place, partition.leader_epoch)
                if alone and step[0] == "restart" and step[-1] is True:
                    led[key] = process
                assert led.setdefault(key, process) == process
    loader = Loader()
    loader.load(
        image_records(cluster.image), next_offset=cluster.image.offset, epoch=cluster.image.epoch
    )
    assert loader.image == cluster.image
