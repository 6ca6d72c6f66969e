"""`penstock doctor`: each check passes and fails on a cluster prepared for it, and the commands
that it prints mend what they are printed for.
"""

import asyncio
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.model.limit import MIB
from penstock.spark.sink.options import DECISION_TOPIC
from penstock.testing import Broker, running_broker
from rig.cluster_questions import until
from rig.command import Outcome
from rig.dialogue import Dialogue
from rig.examined import Examined
from rig.hanging import leave_hanging, talk_with
from rig.reassigning import create_on
from rig.sink_output import cluster_at
from rig.sink_shell import SinkShell, claimed
from rig.small_disk import small_disk
from rig.transaction_dialogue import TransactionDialogue

Run = Callable[..., Outcome]
DISK_BYTES = 64 * MIB
VALUE = bytes(MIB // 2)
three_nodes = pytest.mark.penstock(nodes=3, settings={"auto.leader.rebalance.enable": "false"})


@pytest.fixture
def examined(run: Run, penstock: Broker) -> Examined:
    return Examined(run, penstock.bootstrap)


@three_nodes
def test_replicas_are_added(examined: Examined, penstock: Broker) -> None:
    penstock.topic("copied", min_insync_replicas=2)
    assert examined.status("replication") == "pass"
    create_on(penstock.nodes[1], "alone", [[1], [2]], {"min.insync.replicas": "1"})
    create_on(penstock.nodes[1], "twice", [[1, 2]])
    found = examined.report()["replication"]
    assert (found["status"], found["reason"]) == (
        "fail",
        "alone has 1 replica; twice has 2 replicas",
    )
    assert len(examined.mend("replication")) == 2
    assert examined.status("replication") == "pass"


@three_nodes
def test_acks_need_two_replicas(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders", min_insync_replicas=2)
    assert examined.status("min-insync") == "pass"
    penstock.topic("weak", min_insync_replicas=1)
    penstock.topic("strict", min_insync_replicas=3)
    found = examined.report()["min-insync"]
    assert [one["status"] for one in found["faults"]] == ["fail", "warn"]
    examined.mend("min-insync")
    assert examined.status("min-insync") == "pass"


@three_nodes
def test_what_a_node_that_is_down_takes_with_it_comes_back_with_it(
    examined: Examined, penstock: Broker
) -> None:
    away = ("offline", "under-min-insync", "under-replicated")
    create_on(penstock.nodes[1], "lone", [[3]], {"min.insync.replicas": "1"})
    create_on(penstock.nodes[1], "pair", [[1, 3]], {"min.insync.replicas": "2"})
    until("all is well", lambda: all(examined.status(check) == "pass" for check in away))
    penstock.kill(3)
    until("it is missed", lambda: examined.status("offline") == "fail")
    found = examined.report()
    assert {found[check]["status"] for check in away} == {"fail"}
    assert found["offline"]["reason"] == "lone-0 has no leader"
    assert found["under-min-insync"]["reason"] == "pair-0: 1 in sync, 2 needed to write"
    [advice] = {one["advice"] for one in found["offline"]["faults"]}
    assert advice.startswith("start broker 3 again")
    penstock.start(3)
    until("all is well again", lambda: all(examined.status(check) == "pass" for check in away))


@three_nodes
def test_what_was_on_a_node_that_is_gone_for_good_is_copied_elsewhere(
    examined: Examined, penstock: Broker
) -> None:
    create_on(penstock.nodes[1], "pair", [[1, 3], [3, 2]], {"min.insync.replicas": "1"})
    until("all are in sync", lambda: examined.status("under-replicated") == "pass")
    penstock.kill(3)
    until("it is missed", lambda: examined.status("under-replicated") == "fail")
    [advice] = {one["advice"] for one in examined.report()["under-replicated"]["faults"]}
    command = advised(advice, "start broker 3 again; if gone for good: ")
    assert command == "partitions reassign --drain 3 --watch"
    assert examined.run(command).status == 0
    assert examined.status("under-replicated") == "pass"


@three_nodes
def test_another_broker_is_needed_where_replicas_have_nowhere_to_go(
    examined: Examined, penstock: Broker
) -> None:
    create_on(penstock.nodes[1], "three", [[1, 2, 3]], {"min.insync.replicas": "1"})
    until("all are in sync", lambda: examined.status("under-replicated") == "pass")
    penstock.kill(3)
    until("it is missed", lambda: examined.status("under-replicated") == "fail")
    [fault] = examined.report()["under-replicated"]["faults"]
    drain = "penstock partitions reassign --drain 3 --watch"
    assert fault["advice"].endswith(f", start another broker in its place, and then: {drain}")


@three_nodes
def test_what_nobody_else_has_is_given_up(examined: Examined, penstock: Broker) -> None:
    create_on(penstock.nodes[1], "lone", [[3]], {"min.insync.replicas": "1"})
    create_on(penstock.nodes[1], "pair", [[3, 2]], {"min.insync.replicas": "1"})
    until("all are in sync", lambda: examined.status("under-replicated") == "pass")
    # The last one in sync of the pair is node 3.
    penstock.kill(2)
    until("it is missed", lambda: examined.status("under-replicated") == "fail")
    penstock.kill(3)
    penstock.start(2)
    until("both are missed", lambda: len(examined.report()["offline"]["faults"]) == 2)
    lone, pair = (one["advice"] for one in examined.report()["offline"]["faults"])
    gone = "start broker 3 again; if gone for good, "
    for advice, start, command in (
        (lone, f"{gone}its records are lost: ", "topics delete lone"),
        (pair, f"{gone}the last records are lost: ", "partitions elect-leaders pair:0 --unclean"),
    ):
        assert advised(advice, start) == command
        assert examined.run(command).status == 0
    until("what is left has leaders", lambda: examined.status("offline") == "pass")


def advised(advice: str, start: str) -> str:
    """The command that stands in an advice."""
    assert advice.startswith(start), advice
    return advice.removeprefix(start).removeprefix("penstock ")


@three_nodes
def test_too_many_replicas_are_spread(examined: Examined, penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[1]] * 6, {"min.insync.replicas": "1"})
    create_on(penstock.nodes[1], "small", [[1]], {"min.insync.replicas": "1"})
    options = "--replicas-per-broker 6"
    assert examined.status("partitions", options) == "fail"
    assert examined.mend("partitions", options) == [
        "penstock partitions reassign --topic orders:0,1,2,3 --to-brokers 2,3 --watch"
    ]
    found = examined.report(options)["partitions"]
    assert found["status"] == "pass", found


@three_nodes
def test_preferred_leaders_are_elected(examined: Examined, penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[2, 1, 3]] * 2)
    assert examined.status("leader-balance") == "pass"
    penstock.restart(2)
    until("node 2 is back in sync", lambda: examined.status("under-replicated") == "pass")
    found = examined.report()["leader-balance"]
    assert (found["status"], found["reason"]) == ("warn", "broker 2 leads 0 of the 2 it should")
    assert examined.mend("leader-balance") == ["penstock partitions elect-leaders"]
    assert examined.status("leader-balance") == "pass"


def write(broker: Broker, topic: str, **settings: str | bool) -> None:
    """Three batches, which are as many as the doctor looks at."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})
    for _ in range(3):
        producer.produce(topic, b"x" * 2_000, partition=0)
        assert producer.flush(60) == 0


def test_producers_are_judged_by_their_last_batches(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    assert examined.status("idempotence") == "unknown"
    write(penstock, "orders")
    found = examined.report()
    assert (found["idempotence"]["status"], found["acks"]["status"]) == ("warn", "unknown")
    assert found["idempotence"]["reason"] == (
        "orders: 3 of its last 3 batches without a producer id"
    )
    write(penstock, "orders", **{"enable.idempotence": True})
    found = examined.report()
    assert (found["idempotence"]["status"], found["acks"]["status"]) == ("pass", "pass")


def test_markers_of_transactions_are_passed_over(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    producer = Producer({"bootstrap.servers": penstock.bootstrap, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    producer.commit_transaction(60)
    assert examined.report()["idempotence"]["reason"] == (
        "the last batch was written by idempotent producers"
    )


def test_batches_are_compressed(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    write(penstock, "orders", **{"compression.type": "lz4"})
    assert examined.status("compression") == "pass"
    write(penstock, "orders")
    assert examined.status("compression") == "warn"
    assert examined.mend("compression") == [
        "penstock topics alter orders --set compression.type=zstd"
    ]
    assert examined.status("compression") == "pass"
    write(penstock, "orders")
    plainly = examined.run("topics alter orders --unset compression.type")
    assert plainly.status == 0
    assert examined.status("compression") == "pass"  # by what the broker has compressed meanwhile


def test_records_are_not_kept_for_ever_nor_too_short(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    assert examined.status("retention") == "pass"
    penstock.topic("endless", retention_ms=-1)
    penstock.topic("hasty", retention_ms=1_000)
    found = examined.report()["retention"]
    assert [one["status"] for one in found["faults"]] == ["fail", "warn"]
    assert examined.mend("retention") == [
        "penstock topics alter hasty --set retention.ms=604800000"
    ]
    assert examined.status("retention") == "warn"
    assert examined.mend_at_a_price("retention") == [
        "if it need not, this deletes all records older than 7 days:"
        " penstock topics alter endless --set retention.ms=604800000"
    ]
    assert examined.status("retention") == "pass"


def test_a_hot_partition_is_found_by_its_bytes(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders", partitions=2)
    assert examined.status("hot-partitions") == "pass"
    penstock.produce("orders", [b"x" * 100_000] * 12, partition=0)
    found = examined.report()["hot-partitions"]
    assert (found["status"], found["reason"]) == (
        "warn",
        "orders-0 holds 2.0 times the mean of its topic",
    )
    penstock.produce("orders", [b"x" * 100_000] * 12, partition=1)
    assert examined.status("hot-partitions") == "pass"


def test_replicas_are_held_against_the_plan(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders", partitions=5)
    assert examined.status("partitions") == "pass"
    assert examined.status("partitions", "--replicas-per-broker 6") == "warn"
    found = examined.report("--replicas-per-broker 4")["partitions"]
    assert (found["status"], found["reason"]) == ("fail", "broker 1 holds 5 replicas of 4")
    assert found["faults"][0]["advice"].startswith("run 2 brokers or more")


def test_members_get_partitions_to_read(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    settings = {"bootstrap.servers": penstock.bootstrap, "group.id": "billing"}
    consumers = [Consumer(settings) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe(["orders"])

    def both_are_in() -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return examined.status("partitions") == "warn"

    until("both are members", both_are_in)
    assert examined.mend("partitions") == []  # keys would move
    [advice] = examined.mend_at_a_price("partitions")
    assert advice.endswith(": penstock topics alter orders --partitions 2")
    assert examined.status("partitions") == "pass"
    for consumer in consumers:
        consumer.close()


def test_topics_are_held_against_a_planned_load(
    examined: Examined, penstock: Broker, run: Run
) -> None:
    penstock.topic("orders", partitions=3)
    penstock.topic("bills")
    load = "--throughput 40 --partition-throughput 10 --consumers 3"
    assert examined.status("partitions", f"{load} --topic bills") == "warn"
    [advice] = examined.mend_at_a_price("partitions", f"{load} --topic orders")
    assert advice.endswith(": penstock topics alter orders --partitions 4")
    assert examined.status("partitions", f"{load} --topic orders") == "pass"
    found = examined.report(load)["partitions"]
    assert found["reason"] == "bills has 1 partition: 40 MB/s need 4, of 10 MB/s each"
    for option in ("--consumers 3", "--topic orders", "--partition-throughput 10"):
        refused = run(f"doctor {option}")
        assert (refused.status, refused.out) == (2, b"")
        assert f"{option.split()[0]} is of a planned load: it needs --throughput" in refused.err
    assert run("doctor --throughput 1e300").status == 1


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_lag_is_held_against_the_sla(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    penstock.produce("orders", ["old"], timestamp_ms=int(time.time() * 1000) - 600_000)
    commit(penstock, "billing", "orders", 0)
    found = examined.report()["lag"]
    assert found["status"] == "fail"
    assert found["reason"].startswith("billing is 6")
    assert found["reason"].endswith(" s behind, by 1 record")
    assert found["faults"][0]["advice"] == "start the consumers of billing"
    assert examined.status("lag", "--lag-sla 1h") == "pass"
    commit(penstock, "billing", "orders", 1)
    assert examined.status("lag") == "pass"


def test_a_group_that_nobody_is_in_is_deleted(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    assert examined.status("empty-groups") == "pass"
    commit(penstock, "--left over", "orders", 0)
    assert examined.status("empty-groups") == "warn"
    assert examined.mend("empty-groups") == []  # its consumers may be about to start
    assert examined.mend_at_a_price("empty-groups") == [
        "start its consumers; if it is not used any more: penstock groups delete -- '--left over'"
    ]
    assert examined.status("empty-groups") == "pass"


def test_dead_letters_are_replayed(examined: Examined, penstock: Broker) -> None:
    penstock.topic("orders")
    penstock.topic("orders.dead-letters")
    assert examined.status("dead-letters") == "pass"
    headers = {
        "penstock.dlq.topic": "orders",
        "penstock.dlq.partition": "0",
        "penstock.dlq.offset": "0",
        "penstock.dlq.timestamp": "1000",
        "penstock.dlq.reason": "field id is missing",
    }
    penstock.produce("orders.dead-letters", ["{}"] * 2, headers=headers)
    found = examined.report()["dead-letters"]
    assert found["reason"] == "orders.dead-letters holds 2 records not replayed"
    assert examined.mend("dead-letters") == []  # what caused them may not be mended
    [advice] = examined.mend_at_a_price("dead-letters")
    assert advice.endswith(": penstock dlq replay orders.dead-letters")
    assert examined.status("dead-letters") == "pass"
    assert examined.status("empty-groups") == "pass"
    assert len(penstock.records("orders")) == 2


def test_a_prepared_transaction_that_was_given_up_is_aborted(
    examined: Examined, penstock: Broker
) -> None:
    dialogue = Dialogue(penstock.bootstrap, "orders")
    talk = TransactionDialogue(dialogue)
    producer = talk.producer("-sink")
    talk.init(producer, version=6, enable2_pc=True)
    talk.produce(producer, version=12)
    dialogue.close()
    assert examined.status("transactions") == "pass"
    time.sleep(0.01)  # it is older than nothing then
    found = examined.report("--open-for 0s")["transactions"]
    assert found["status"] == "fail"
    assert found["reason"].endswith("in two-phase commit: nothing times it out")
    assert examined.mend("transactions", "--open-for 0s") == []  # it may be decided
    assert examined.mend_at_a_price("transactions", "--open-for 0s") == [
        "its external coordinator is to end it; if that has given it up:"
        " penstock transactions abort orders-sink"
    ]
    assert examined.status("transactions", "--open-for 0s") == "pass"


async def claim_sink(bootstrap: str, sink: str, *, run_id: str) -> None:
    """What a query does before its tasks write."""
    async with cluster_at(bootstrap) as cluster:
        shell = SinkShell(cluster=cluster, sink=sink, topic=sink, decision_topic=DECISION_TOPIC)
        await shell.decisions.make()
        await claimed(shell, run_id)


def test_what_a_sink_has_left_open_is_ended_with_its_decisions(
    examined: Examined, penstock: Broker
) -> None:
    dialogue = Dialogue(penstock.bootstrap, "orders")
    asyncio.run(claim_sink(penstock.bootstrap, "orders", run_id="f00d"))
    talk = TransactionDialogue(dialogue)
    producer = talk.producer(".f00d.0.0.0.1")
    talk.init(producer, version=6, enable2_pc=True)
    talk.produce(producer, version=12)
    dialogue.close()
    time.sleep(0.01)  # it is older than nothing then
    assert examined.mend("transactions", "--open-for 0s") == []
    [advice] = examined.mend_at_a_price("transactions", "--open-for 0s")
    assert "`penstock transactions recover`" in advice
    assert advice.endswith("; if it is given up: penstock transactions abort --sink orders")
    assert examined.status("transactions", "--open-for 0s") == "pass"


def test_a_transaction_that_is_open_for_long_is_aborted(
    examined: Examined, penstock: Broker
) -> None:
    penstock.topic("orders")
    producer = Producer({"bootstrap.servers": penstock.bootstrap, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0
    assert examined.status("transactions") == "pass"
    time.sleep(0.01)  # it is older than nothing then
    found = examined.report("--open-for 0s")["transactions"]
    assert found["status"] == "warn"
    assert found["reason"].startswith("till has been open for ")
    assert examined.mend("transactions", "--open-for 0s") == ["penstock transactions abort till"]
    assert examined.status("transactions", "--open-for 0s") == "pass"


def test_a_transaction_that_hangs_is_aborted(examined: Examined, penstock: Broker) -> None:
    with talk_with(penstock.bootstrap, "orders") as talk:
        leave_hanging(talk, partition=1)
    found = examined.report()["transactions"]
    assert found["status"] == "fail"
    [command] = examined.mend("transactions")
    assert command.startswith("penstock transactions abort --topic orders:1 --start-offset ")
    assert examined.status("transactions") == "pass"


def test_room_on_disks_is_held_against_what_is_wanted(examined: Examined) -> None:
    assert examined.status("disk", "--disk-free 0") == "pass"
    found = examined.report("--disk-free 100")["disk"]
    assert found["status"] in ("warn", "fail")
    assert "100 % wanted" in found["reason"]


def test_a_disk_that_fills_up_is_found_until_there_is_room_again(run: Run, tmp_path: Path) -> None:
    settings = {"log.segment.delete.delay.ms": 0}
    with (
        small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as disk,
        running_broker(data=disk, settings=settings) as broker,
    ):
        examined = Examined(run, broker.bootstrap)
        broker.topic("orders")
        broker.topic("logs")
        found = examined.report()["disk"]
        assert found["status"] == "pass", found
        assert found["reason"].endswith(" % free or more on every disk")

        for part, status in ((0.81, "warn"), (0.91, "fail")):
            while shutil.disk_usage(disk).used < part * DISK_BYTES:
                broker.produce("orders", [VALUE])
            free = 100 * shutil.disk_usage(disk).free / DISK_BYTES
            found = examined.report()["disk"]
            assert found["status"] == status, found
            assert found["reason"].startswith(f"broker 1 {disk}")
            told = re.search(r": (\d+) % free, 20 % wanted$", found["reason"])
            assert told is not None and abs(int(told[1]) - free) < 1, found
            [fault] = found["faults"]
            advice = "a larger disk, or a shorter retention: orders takes "
            assert fault["advice"].startswith(advice), fault
            taken = int(fault["advice"].removeprefix(advice).split()[0].replace(",", ""))
            assert taken > (part - 0.1) * DISK_BYTES
        assert run("topics delete orders", bootstrap=broker.bootstrap).status == 0
        until("there is room again", lambda: examined.status("disk") == "pass")


def test_a_timestamp_of_the_future_shows_a_clock_that_is_ahead(
    examined: Examined, penstock: Broker
) -> None:
    penstock.topic("orders")
    assert examined.status("clock") == "pass"
    penstock.produce("orders", ["early"], timestamp_ms=int(time.time() * 1000) + 1_800_000)
    found = examined.report()["clock"]
    assert found["status"] == "warn"
    assert found["reason"].startswith("orders-0: a producer's clock was 1,")
    penstock.produce("orders", ["x"])
    penstock.produce("orders", ["y"])
    penstock.produce("orders", ["z"])
    assert examined.status("clock") == "pass"


def test_what_only_clients_and_nodes_know_is_unknown_with_the_reason(examined: Examined) -> None:
    found = examined.report()
    for check in ("offset-reset", "descriptors"):
        assert found[check]["status"] == "unknown"
        assert "request" in found[check]["reason"]
    assert found["descriptors"]["reason"].endswith(" penstock.metrics.address is not set")
