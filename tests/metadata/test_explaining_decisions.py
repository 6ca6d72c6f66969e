"""Who leads, who is in sync, and why: what the controller logs of its decisions."""

from penstock.metadata.controller.broker_sessions import GoneBy
from penstock.metadata.controller.elections import BalanceLeaders, ElectionType
from penstock.metadata.controller.explained import (
    PARTITIONS_EXPLAINED_MAX,
    BrokerBecame,
    BrokerChanged,
    ChangesLeftOut,
    PartitionChanged,
    Why,
)
from penstock.model.identity import NodeId
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from rig.cluster import Cluster

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def cluster_of_three(**config: str) -> Cluster:
    cluster = Cluster(3)
    cluster.create("orders", replicas=3, **config)
    cluster.explained.clear()
    return cluster


def partitions(cluster: Cluster) -> list[PartitionChanged]:
    return [one for one in cluster.explained if isinstance(one, PartitionChanged)]


def brokers(cluster: Cluster) -> list[tuple[NodeId, BrokerBecame, Why | GoneBy | None]]:
    return [
        (one.broker, one.became, one.why)
        for one in cluster.explained
        if isinstance(one, BrokerChanged)
    ]


def leader(cluster: Cluster) -> NodeId:
    found = cluster.topic("orders").partitions[0].leader
    assert found is not None
    return found


def test_a_fenced_leader_is_told_with_its_successor() -> None:
    cluster = cluster_of_three()
    old = leader(cluster)
    cluster.fence(old)
    [change] = partitions(cluster)
    assert change.partition == "orders-0"
    assert change.why is Why.BROKER_FENCED
    assert change.broker == change.old_leader == old
    assert change.leader == leader(cluster) != old
    assert change.leader_epoch == cluster.topic("orders").partitions[0].leader_epoch == 1
    assert (change.left, change.joined) == ((old,), ())
    assert not change.is_unclean
    assert brokers(cluster) == [(old, BrokerBecame.FENCED, GoneBy.SESSION)]


def test_a_replica_that_lags_and_one_that_caught_up() -> None:
    cluster = cluster_of_three()
    first = leader(cluster)
    others = [one for one in (ONE, TWO, THREE) if one != first]
    cluster.alter_isr("orders", first, others[0])
    cluster.alter_isr("orders", first, *others)
    [lagged, caught_up] = partitions(cluster)
    assert (lagged.why, lagged.left, lagged.led_anew) == (Why.REPLICA_LAGGED, (others[1],), False)
    assert (caught_up.why, caught_up.joined) == (Why.REPLICA_CAUGHT_UP, (others[1],))


def test_a_broker_that_is_asked_to_stop_hands_over() -> None:
    cluster = cluster_of_three()
    old = leader(cluster)
    cluster.shut_down(old)
    changes = partitions(cluster)
    assert {one.why for one in changes} == {Why.CONTROLLED_SHUTDOWN}
    assert changes[0].old_leader == old
    assert {(one[0], one[1]) for one in brokers(cluster)} >= {(old, BrokerBecame.FENCED)}
    assert {one[2] for one in brokers(cluster)} == {Why.CONTROLLED_SHUTDOWN}


def test_the_preferred_leader_leads_again() -> None:
    cluster = cluster_of_three()
    old = leader(cluster)
    cluster.fence(old)
    cluster.unfence(old)
    cluster.alter_isr("orders", *cluster.topic("orders").partitions[0].replicas)
    cluster.explained.clear()
    cluster.ask(BalanceLeaders())
    [change] = partitions(cluster)
    assert (change.why, change.leader) == (Why.PREFERRED, old)


def test_partitions_beyond_the_first_hundred_are_counted() -> None:
    cluster = Cluster(3)
    cluster.create("orders", partitions=250, replicas=3)
    cluster.explained.clear()
    led = sum(one.leader == TWO for one in cluster.topic("orders").partitions)
    cluster.fence(TWO)
    told = partitions(cluster)
    assert len(told) == PARTITIONS_EXPLAINED_MAX
    [rest] = [one for one in cluster.explained if isinstance(one, ChangesLeftOut)]
    assert rest.in_sync == 250 - len(told)
    assert rest.leaders == led - sum(one.led_anew for one in told) > 0
    assert (rest.offline, rest.why, rest.broker) == (0, Why.BROKER_FENCED, TWO)


def test_an_unclean_election_is_told_as_such() -> None:
    cluster = cluster_of_three(min_insync_replicas="1")
    first = leader(cluster)
    cluster.alter_isr("orders", first)
    cluster.fence(first)
    assert partitions(cluster)[-1].leader is None
    cluster.ask(ElectLeadersRequest(election_type=ElectionType.UNCLEAN, topic_partitions=None))
    change = partitions(cluster)[-1]
    assert change.why is Why.UNCLEAN
    assert change.is_unclean
    assert change.old_leader is None
    assert change.leader not in (None, first)
