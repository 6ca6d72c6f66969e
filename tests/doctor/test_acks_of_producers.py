"""Acks of producers, by what nodes count of them while the doctor looks."""

from dataclasses import replace

from penstock.doctor.finding import Finding, Status
from penstock.doctor.gather_metrics import MetricsPage, asks_again, early_acks_seen
from penstock.doctor.seen import EarlyAcks, Limits, Unseen
from penstock.doctor.writes import acks
from penstock.model.identity import NodeId, TopicPartition
from rig.cluster_seen import NOW_MS, batch, seen

LIMITS = Limits()
PLACE = TopicPartition("orders", 0)


def test_acks_are_judged_by_what_nodes_count_meanwhile() -> None:
    mixed = seen(batches={PLACE: (batch(), batch(producer_id=None))}, acks_watched_ms=3_100)

    def judged(*counts: EarlyAcks) -> Finding:
        told = {NodeId(node): {"orders": one} for node, one in enumerate(counts, start=1)}
        return acks(replace(mixed, early_acks=told), LIMITS)

    assert acks(mixed, LIMITS).status is Status.PASS
    assert judged(EarlyAcks(before=0, meanwhile=0, records=7)).status is Status.PASS
    found = judged(
        EarlyAcks(before=7, meanwhile=4, records=5), EarlyAcks(before=0, meanwhile=1_000, records=9)
    )
    assert (found.status, found.reason) == (
        Status.WARN,
        "orders: 1,004 batches with acks=0 or 1 within 3.1 s",
    )
    # As it was before its producers were mended.
    assert judged(EarlyAcks(before=7, meanwhile=0, records=5)).status is Status.PASS
    silent = judged(EarlyAcks(before=1, meanwhile=0, records=0))
    assert (silent.status, silent.reason) == (
        Status.UNKNOWN,
        "orders: 1 batch with acks=0 or 1 since its brokers started, and nothing was written to it"
        " within 3.1 s",
    )
    others = replace(mixed, early_acks={NodeId(1): {"bills": EarlyAcks(before=7, meanwhile=1)}})
    assert acks(others, LIMITS).status is Status.PASS
    idempotent = replace(others, batches={TopicPartition("bills", 0): (batch(),)})
    assert acks(idempotent, LIMITS).status is Status.PASS


def page(early: int, records: int) -> MetricsPage:
    return told(
        f'penstock_early_acked_batches_total{{topic="orders"}} {early}.0\n'
        f'kafka_server_brokertopicmetrics_messagesin_total{{topic="orders"}} {records}.0\n'
    )


def told(text: str) -> MetricsPage:
    return MetricsPage(text=text.encode(), asked_ms=NOW_MS, took_ms=4)


def test_counters_of_nodes_are_compared_also_over_a_restart() -> None:
    unseen = Unseen(reason="it has no metrics")
    assert early_acks_seen(page(3, 30), page(5, 50)) == {
        "orders": EarlyAcks(before=3, meanwhile=2, records=20)
    }
    assert early_acks_seen(page(3, 30), page(1, 8)) == {
        "orders": EarlyAcks(before=3, meanwhile=1, records=8)
    }
    assert early_acks_seen(told(""), page(2, 2)) == {
        "orders": EarlyAcks(before=0, meanwhile=2, records=2)
    }
    assert early_acks_seen(page(3, 30), unseen) == unseen
    assert early_acks_seen(unseen, page(3, 30)) == unseen


def test_counters_are_read_again_only_where_early_acks_may_have_mended() -> None:
    plain = {PLACE: (batch(producer_id=None),)}
    assert asks_again([page(3, 30)], plain)
    assert not asks_again([page(0, 30)], plain)
    assert not asks_again([page(3, 30)], {PLACE: (batch(),)})
    assert not asks_again([page(3, 30), Unseen(reason="away")], Unseen(reason="away"))
