"""What topics and partitions are judged by: replicas, settings, leaders, sizes, letters."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.group_lag import PartitionLag
from penstock.client.admin.last_batches import LogRange
from penstock.client.consume.group_offsets import Committed
from penstock.doctor.availability import offline, under_min_insync, under_replicated
from penstock.doctor.durability import min_insync, replication
from penstock.doctor.finding import Advice, Finding, Status
from penstock.doctor.kept import dead_letters, retention
from penstock.doctor.layout import hot_partitions, leader_balance, partitions
from penstock.doctor.seen import ClusterSeen, GroupSeen, Limits, Unseen
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import Offset
from rig.cluster_seen import advice, commands, directory, partition, seen, topic

LIMITS = Limits()


@pytest.mark.parametrize(
    ("replicas", "status"),
    [((1,), Status.FAIL), ((1, 2), Status.WARN), ((1, 2, 3), Status.PASS)],
)
def test_a_topic_has_three_replicas(replicas: tuple[int, ...], status: Status) -> None:
    found = replication(seen(topic("orders", partition(0, replicas))), LIMITS)
    assert found.status is status
    assert commands(found) == (
        []
        if status is Status.PASS
        else ["penstock partitions reassign --topic orders --to-brokers 1,2,3 --replicas 3 --watch"]
    )


def test_a_broker_that_is_down_is_started_before_replicas_are_added() -> None:
    found = replication(
        seen(topic("orders", partition(0, (1, 2))), brokers=(1, 2), down=(3,)), LIMITS
    )
    assert found.status is Status.WARN
    assert found.mends == (Advice(text="start broker 3 again, and then add replicas"),)


def test_a_cluster_of_one_broker_fails_for_that() -> None:
    found = replication(seen(topic("orders", partition(0, (1,))), brokers=(1,)), LIMITS)
    assert found.status is Status.FAIL
    assert found.reason == "there is 1 broker: its disk is the only copy"
    assert commands(found) == []


@pytest.mark.parametrize(
    ("replicas", "needed", "status", "better"),
    [
        (3, "1", Status.FAIL, 2),
        (3, "2", Status.PASS, None),
        (3, "3", Status.WARN, 2),
        (3, "4", Status.FAIL, 2),
        (2, "1", Status.PASS, None),
        (1, "2", Status.FAIL, 1),
    ],
)
def test_two_replicas_ack_and_one_may_be_away(
    replicas: int, needed: str, status: Status, better: int | None
) -> None:
    held = tuple(range(1, replicas + 1))
    settings = {"orders": {"min.insync.replicas": needed}}
    found = min_insync(seen(topic("orders", partition(0, held)), settings=settings), LIMITS)
    assert found.status is status
    assert commands(found) == (
        []
        if better is None
        else [f"penstock topics alter orders --set min.insync.replicas={better}"]
    )


def test_replicas_out_of_sync_are_named_with_the_broker_to_start() -> None:
    away = seen(
        topic("orders", partition(0, in_sync=(1, 2)), partition(1)), brokers=(1, 2), down=(3,)
    )
    found = under_replicated(away, LIMITS)
    assert (found.status, found.reason) == (Status.FAIL, "orders-0 is in sync on 2 of 3")
    [advice] = found.mends
    assert isinstance(advice, Advice)
    assert advice.line().startswith("start broker 3 again; if gone for good")
    assert under_min_insync(away, LIMITS).status is Status.PASS
    assert offline(away, LIMITS).status is Status.PASS


def test_too_few_in_sync_is_told_apart_from_no_leader() -> None:
    few = seen(topic("orders", partition(0, in_sync=(1,))), brokers=(1,), down=(2, 3))
    found = under_min_insync(few, LIMITS)
    assert found.reason == "orders-0: 1 in sync, 2 needed to write"
    assert offline(few, LIMITS).status is Status.PASS
    none = seen(topic("orders", partition(0, in_sync=(1,), leader=None)), brokers=(2, 3))
    assert offline(none, LIMITS).reason == "orders-0 has no leader"


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, Status.PASS),
        ({"retention.ms": "-1"}, Status.WARN),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, Status.PASS),
        ({"retention.ms": "-1", "cleanup.policy": "compact"}, Status.PASS),
        ({"retention.ms": "60000"}, Status.FAIL),
        ({"retention.ms": "300000"}, Status.PASS),
    ],
)
def test_records_are_kept_longer_than_groups_lag_and_not_for_ever(
    settings: dict[str, str], status: Status
) -> None:
    found = retention(seen(settings={"orders": settings}), LIMITS)
    assert found.status is status
    command = "penstock topics alter orders --set retention.ms=604800000"
    assert commands(found) == ([command] if status is Status.FAIL else [])
    price = "if it need not, this deletes all records older than 7 days"
    assert advice(found) == ([f"{price}: {command}"] if status is Status.WARN else [])


def letters(name: str, *, end: int, groups: tuple[GroupSeen, ...] = ()) -> ClusterSeen:
    log = LogRange(start_offset=Offset(0), end_offset=Offset(end))
    return seen(topic(name), logs={TopicPartition(name, 0): log}, groups=groups)


@pytest.mark.parametrize(
    "name",
    [
        "commerce.dead-letters",
        "orders.DLT",
        "orders-dlq",
        "dlq.orders",
        "ordersDLQ",
        "DeadLetter",
        "dead_letter_queue",
        "orders-retry-dlt.v2",
        "deadletters",
    ],
)
def test_letters_are_found_in_topics_of_common_names(name: str) -> None:
    found = dead_letters(letters(name, end=3), LIMITS)
    assert (found.status, found.reason) == (Status.WARN, f"{name} holds 3 records not replayed")
    assert commands(found) == []  # the cause may not be mended yet
    [line] = advice(found)
    assert line.startswith(f"look at them with `penstock dlq list {name}` and mend the cause; ")
    assert "nobody knows where the others came from" in line  # those of Spring or Connect
    assert line.endswith(f": penstock dlq replay {name}")
    assert dead_letters(letters(name, end=0), LIMITS).status is Status.PASS


@pytest.mark.parametrize("name", ["orders", "deadlines", "letters", "middle", "dlqueue"])
def test_other_topics_hold_no_letters(name: str) -> None:
    assert dead_letters(letters(name, end=3), LIMITS).reason == "there is no dead-letter topic"


def test_letters_that_were_replayed_do_not_wait() -> None:
    def replayed(offset: int) -> Finding:
        committed = PartitionLag(
            partition=TopicPartition("orders-dlq", 0),
            committed=Committed(offset=Offset(offset)),
            start_offset=Offset(0),
            end_offset=Offset(3),
            lag=None,
        )
        group = GroupSeen(
            group_id="penstock-dlq-orders-dlq", state="Empty", member_topics=(), lag=(committed,)
        )
        return dead_letters(letters("orders-dlq", end=3, groups=(group,)), LIMITS)

    assert replayed(2).reason == "orders-dlq holds 1 record not replayed"
    assert replayed(3).status is Status.PASS


def test_letters_are_not_said_to_wait_where_nobody_knows_what_was_replayed() -> None:
    beyond = Unseen(reason="only 500 groups are looked at")
    group = GroupSeen(group_id="penstock-dlq-orders-dlq", state="", member_topics=(), lag=beyond)
    waiting = letters("orders-dlq", end=3, groups=(group,))
    found = dead_letters(waiting, LIMITS)
    assert (found.status, found.reason) == (
        Status.UNKNOWN,
        "orders-dlq holds 3 records, replayed or not: only 500 groups are looked at",
    )
    assert [line.rpartition(": ")[2] for line in advice(found)] == [
        "penstock dlq replay orders-dlq"
    ]
    nobody = replace(waiting, groups=Unseen(reason="broker 2 is away"))
    assert dead_letters(nobody, LIMITS).status is Status.UNKNOWN
    empty = letters("orders-dlq", end=0, groups=(group,))
    assert dead_letters(empty, LIMITS).status is Status.PASS


@pytest.mark.parametrize(
    ("limit", "status"), [(2, Status.FAIL), (3, Status.WARN), (4, Status.PASS)]
)
def test_replicas_of_a_broker_are_held_against_the_limit(limit: int, status: Status) -> None:
    three = seen(topic("orders", partition(0), partition(1), partition(2)))
    found = partitions(three, replace(LIMITS, replicas_per_broker_max=limit))
    assert found.status is status


def crowded(*others: tuple[int, ...], brokers: tuple[int, ...] = (1, 2, 3)) -> Finding:
    """Broker 1 holds ten partitions alone, and may hold ten; `others` are more of them."""
    alone = [partition(index, (1,)) for index in range(10)]
    more = [partition(index, held) for index, held in enumerate(others)]
    topics = [topic("orders", *alone), *([topic("more", *more)] if more else [])]
    return partitions(seen(*topics, brokers=brokers), replace(LIMITS, replicas_per_broker_max=10))


def test_what_a_broker_holds_beyond_its_share_goes_to_those_with_room() -> None:
    moved = "penstock partitions reassign --topic orders:0,1,2,3,4,5 --to-brokers 2,3 --watch"
    assert commands(crowded()) == [moved]
    full = crowded(*[(2,)] * 8)
    assert (full.status, commands(full)) == (
        Status.WARN,
        ["penstock partitions reassign --topic orders:0,1,2,3 --to-brokers 3 --watch"],
    )


def test_where_all_are_full_more_brokers_are_needed() -> None:
    alone = crowded(brokers=(1,))
    assert alone.mends == (Advice(text="run 2 brokers or more, or delete topics that nobody uses"),)


def members(topics: Any, count: int) -> tuple[GroupSeen, ...]:
    return (GroupSeen(group_id="billing", state="Stable", member_topics=(topics,) * count, lag=()),)


def test_members_beyond_the_partitions_are_idle() -> None:
    found = partitions(seen(groups=members(("orders",), 2)), LIMITS)
    assert found.reason == "orders has 1 partition for 2 members of billing"
    assert commands(found) == []  # keys would move, whoever relies on their order
    assert advice(found) == [
        "run fewer members; if no reader relies on the order of keys, many of which then go to"
        " another partition: penstock topics alter orders --partitions 2"
    ]
    assert partitions(seen(groups=members(("orders",), 1)), LIMITS).status is Status.PASS
    assert partitions(seen(groups=members(("orders", "x"), 2)), LIMITS).status is Status.PASS


def test_a_compacted_topic_is_not_given_more_partitions() -> None:
    """What was written of a key before it moves is never replaced."""
    compacted = {"orders": {"cleanup.policy": "compact,delete"}}
    found = partitions(seen(settings=compacted, groups=members(("orders",), 2)), LIMITS)
    assert advice(found) == [
        "run fewer members: orders is compacted, and of keys that go to another partition the"
        " former one would keep old records"
    ]
    unseen = Unseen(reason="no answer within 15 s")
    blind = partitions(seen(groups=members(("orders",), 2), topic_settings=unseen), LIMITS)
    [line] = advice(blind)
    assert "; if it is not compacted, and no reader relies on the order of keys" in line
    assert line.endswith(": penstock topics alter orders --partitions 2")


def test_leaders_are_the_preferred_ones() -> None:
    led = topic("orders", partition(0, leader=2), partition(1, (2, 3, 1)))
    found = leader_balance(seen(led), LIMITS)
    assert found.reason == "broker 1 leads 0 of the 1 it should"
    assert commands(found) == ["penstock partitions elect-leaders"]
    down = leader_balance(seen(led, brokers=(2, 3)), LIMITS)
    assert commands(down) == []
    assert down.mends == (Advice(text="start broker 1 again"),)
    most = topic("orders", partition(0, leader=2), *(partition(index) for index in range(1, 10)))
    assert leader_balance(seen(most), LIMITS).status is Status.PASS


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ((2_000_000, 0), Status.WARN),
        ((1_400_000, 600_000), Status.PASS),
        ((20_000, 0), Status.PASS),  # too little to matter
        ((9_000_000, 1_000_000, 1_000_000), Status.WARN),
    ],
)
def test_a_partition_much_larger_than_the_mean_is_hot(
    sizes: tuple[int, ...], status: Status
) -> None:
    held = {TopicPartition("orders", index): size for index, size in enumerate(sizes)}
    wide = topic("orders", *(partition(index) for index in range(len(sizes))))
    found = hot_partitions(
        seen(wide, directories={NodeId(1): (directory(1, held),), NodeId(2): Unseen(reason="x")}),
        LIMITS,
    )
    assert found.status is status
    if status is Status.WARN:
        assert found.reason.startswith("orders-0 holds 2.")
