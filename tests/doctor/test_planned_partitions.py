"""Topics have the partitions that their planned load needs, as `penstock plan` calculates them."""

from dataclasses import replace

import pytest

from penstock.doctor.finding import Finding, Status
from penstock.doctor.layout import partitions
from penstock.doctor.seen import ClusterSeen, Limits, Load
from rig.cluster_seen import advice, commands, partition, seen, topic

ORDERS = topic("orders", *(partition(index) for index in range(6)))


def judged(whole: ClusterSeen, load: Load) -> Finding:
    return partitions(whole, replace(Limits(), load=load))


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (Load(throughput_mb=60, consumers=6), None),
        (
            Load(throughput_mb=61),
            "orders has 6 partitions: 61 MB/s need 7, of 10 MB/s each",
        ),
        (Load(throughput_mb=1, consumers=7), "orders has 6 partitions: 7 consumers need 7"),
        (
            Load(throughput_mb=60, partition_mb=5),
            "orders has 6 partitions: 60 MB/s need 12, of 5 MB/s each",
        ),
    ],
)
def test_the_larger_need_of_throughput_and_consumers_decides(
    load: Load, reason: str | None
) -> None:
    found = judged(seen(ORDERS), load)
    if reason is None:
        assert found.status is Status.PASS
        assert found.reason.endswith("; orders has those that its load needs")
    else:
        assert (found.status, found.reason) == (Status.WARN, reason)


def test_more_partitions_are_advised_with_their_price() -> None:
    found = judged(seen(ORDERS), Load(throughput_mb=61))
    assert commands(found) == []
    assert advice(found) == [
        "measure what one takes by `penstock plan partitions --measure`; if no reader relies on the"
        " order of keys, many of which then go to another partition: penstock topics alter orders"
        " --partitions 7"
    ]


def test_each_broker_has_a_partition_to_lead() -> None:
    found = judged(seen(topic("orders", partition(0)), down=(4,)), Load(throughput_mb=1))
    assert found.reason == "orders has 1 partition: 4 brokers need 4, to lead one each"


def test_topics_that_are_named_are_judged_and_else_all_of_users_but_dead_letters() -> None:
    whole = seen(ORDERS, topic("small"), topic("orders-dlq"), topic("__consumer_offsets"))
    load = Load(throughput_mb=60)
    assert judged(whole, load).reason == "small has 1 partition: 60 MB/s need 6, of 10 MB/s each"
    assert judged(whole, replace(load, topics=("orders",))).status is Status.PASS
    both = judged(whole, Load(throughput_mb=1, topics=("orders", "orders")))
    assert both.reason.endswith("; orders has those that its load needs")
    letters_alone = judged(seen(topic("orders-dlq")), load)
    assert letters_alone.reason.endswith("; there is no topic to carry the load")
    found = judged(whole, replace(load, topics=("orders", "bills")))
    assert (found.status, found.reason) == (Status.UNKNOWN, "there is no topic bills")


def test_without_a_load_nothing_is_said_of_it() -> None:
    assert partitions(seen(ORDERS), Limits()).reason == "6 replicas a broker at most, of 4,000"
