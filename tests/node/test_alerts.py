"""A node tells of faults and of their ends, once each."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.broker.metrics import groups, lag_ages
from penstock.model.limit import MIB
from penstock.world.disk import RealDisk
from penstock.world.ports import File
from rig.alerting_node import (
    TOPIC,
    WAIT_SECONDS,
    FillingDisk,
    create,
    delivered,
    node_with_alerts,
    states_in_topic,
    write,
)
from rig.cluster_questions import until
from rig.small_disk import small_disk
from rig.tls_files import TlsFiles
from rig.webhook import receiver

HOUR_MS = 3_600_000
DISK_BYTES = 64 * MIB
VALUE = bytes(MIB // 2)
NO_TOPIC = {"penstock_alerts_topic": ""}  # what is written to it would be produce requests too


def test_a_filling_disk_is_told_once_and_its_end_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock")
    disk = FillingDisk()
    alert = "PenstockDiskFilling"
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node,
    ):
        create(node, "quiet")
        disk.free_part = 0.1
        body = hook.until(alert, "firing")
        directory = body["subject"]
        assert directory.startswith(str(tmp_path))
        key = f"1/{alert}/{directory}"
        until("it is in the topic", lambda: states_in_topic(node).get(key) == "firing")
        disk.free_part = 0.5
        hook.until(alert, "cleared")
        until("its end is in the topic", lambda: states_in_topic(node).get(key) == "cleared")
        path, headers, first = hook.requests[0]
        assert hook.told(alert) == [("firing", directory), ("cleared", directory)]
    assert path == "/hook?of=test"
    assert headers["Content-Type"] == "application/json"
    assert first["severity"] == "warning"
    assert first["threshold"] == 0.8
    assert 0.89 < first["value"] < 0.91
    assert first["node"] == 1
    assert "retention" in first["action"]
    told = [one.getMessage() for one in caplog.records if f"alert={alert}" in one.getMessage()]
    assert [line.split(" alert=")[0] for line in told] == ["alert fires", "alert cleared"]
    assert hook.url not in caplog.text


def test_a_disk_that_fills_up_is_told_until_there_is_room_again(tmp_path: Path) -> None:
    alert = "PenstockDiskFilling"
    with (
        small_disk(tmp_path / "disk", size_bytes=DISK_BYTES) as disk,
        receiver() as hook,
        node_with_alerts(
            disk,
            hook,
            **NO_TOPIC,
            log_segment_delete_delay_ms="0",
            penstock_alerts_disk_ratio="0.8",
        ) as node,
    ):
        create(node, "orders")
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for _ in range(85 * DISK_BYTES // 100 // len(VALUE)):
            producer.produce("orders", VALUE)
            producer.flush()
        body = hook.until(alert, "firing")
        assert body["subject"].startswith(str(disk))
        assert 0.8 < body["value"] < 1
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.delete_topics(["orders"])["orders"].result(WAIT_SECONDS)
        hook.until(alert, "cleared")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_a_group_that_lags_without_members_is_told_until_it_has_read_all(tmp_path: Path) -> None:
    with receiver() as hook, node_with_alerts(tmp_path, hook) as node:
        create(node, "orders")
        write(node, "orders", 3, age_ms=HOUR_MS)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "bil\nling"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        lag = hook.until("PenstockGroupLagSeconds", "firing")
        assert lag["subject"] == "bil\nling orders"
        assert 3_600 <= lag["value"] < 7_200
        assert hook.until("PenstockGroupWithoutMembers", "firing")["subject"] == "bil\nling"
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        hook.until("PenstockGroupLagSeconds", "cleared")
        hook.until("PenstockGroupWithoutMembers", "cleared")
        consumer.close()
        for alert in ("PenstockGroupLagSeconds", "PenstockGroupWithoutMembers"):
            assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_a_group_whose_lag_is_not_known_any_more_is_not_told_as_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alert = "PenstockGroupLagSeconds"
    disk = FillingDisk()
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node,
    ):
        create(node, "orders")
        write(node, "orders", 3, age_ms=HOUR_MS)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        hook.until(alert, "firing")
        monkeypatch.setattr(lag_ages, "METRICS_LAG_AGES_MAX", 0)
        # It goes on by a record, so the age has to be read again.
        consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
        disk.free_part = 0.1
        hook.until("PenstockDiskFilling", "firing")
        disk.free_part = 0.5
        hook.until("PenstockDiskFilling", "cleared")  # which takes as long as it does for a lag
        assert hook.told(alert) == [("firing", "billing orders")]
        consumer.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
        hook.until(alert, "cleared")
        consumer.close()


def test_a_group_that_was_deleted_is_told_as_cleared_where_offsets_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "METRICS_LAGS_MAX", 1)
    alerts = {"PenstockGroupLagSeconds": "gone orders", "PenstockGroupWithoutMembers": "gone"}
    with receiver() as hook, node_with_alerts(tmp_path, hook) as node:
        create(node, "orders")
        write(node, "orders", 3, age_ms=HOUR_MS)
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for group in ("gone", "first", "left-out"):
            consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": group})
            offset = 1 if group == "gone" else 3
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            consumer.close()
            if group == "gone":
                for alert in alerts:
                    hook.until(alert, "firing")
        [deleted] = admin.delete_consumer_groups(["gone"]).values()
        deleted.result(WAIT_SECONDS)
        for alert, subject in alerts.items():
            hook.until(alert, "cleared")
            assert hook.told(alert) == [("firing", subject), ("cleared", subject)]


def test_dead_letters_are_told_of_while_they_come(tmp_path: Path) -> None:
    with receiver() as hook, node_with_alerts(tmp_path, hook, penstock_alerts_for_ms="0") as node:
        create(node, "orders.DLQ")
        create(node, "orders")

        def letters_come() -> bool:
            write(node, "orders")
            write(node, "orders.DLQ")
            return bool(hook.told("PenstockDeadLettersGrow"))

        until("dead letters are told of", letters_come)
        hook.until("PenstockDeadLettersGrow", "cleared")
        wanted = [("firing", "orders.DLQ"), ("cleared", "orders.DLQ")]
        assert hook.told("PenstockDeadLettersGrow") == wanted


def test_more_records_than_the_capacity_are_told(tmp_path: Path) -> None:
    alert = "PenstockMessageRate"
    with (
        receiver() as hook,
        node_with_alerts(
            tmp_path, hook, penstock_alerts_for_ms="0", penstock_alerts_messages_per_second="100"
        ) as node,
    ):
        create(node, "orders")

        def written() -> bool:
            write(node, "orders", 1_000)
            return bool(hook.told(alert))

        until("the rate is told of", written)
        assert hook.until(alert, "firing")["value"] > 100
        hook.until(alert, "cleared")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_an_alert_whose_rule_is_switched_off_does_not_fire_for_ever(tmp_path: Path) -> None:
    alert = "PenstockMessageRate"
    capacity = {
        "penstock_alerts_messages_per_second": "1",
        "penstock_alerts_for_ms": "0",
        "penstock_alerts_clear_ms": str(HOUR_MS),
    }
    with receiver() as hook:
        with node_with_alerts(tmp_path, hook, **capacity) as node:
            create(node, "orders")

            def is_in_topic() -> bool:
                write(node, "orders", 100)
                return states_in_topic(node).get(f"1/{alert}/") == "firing"

            until("it is in the topic", is_in_topic)
            hook.until(alert, "firing")
        with node_with_alerts(tmp_path, hook) as node:
            until(
                "its end is in the topic",
                lambda: states_in_topic(node).get(f"1/{alert}/") == "cleared",
            )
            assert hook.until(alert, "cleared")["value"] is None
        with node_with_alerts(tmp_path, hook) as node:
            write(node, "orders")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_a_transaction_that_is_held_is_told_until_it_ends(tmp_path: Path) -> None:
    alert = "PenstockTransactionOpenTooLong"
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, penstock_alerts_transaction_ms="300") as node,
    ):
        create(node, "orders")
        producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "held"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("orders", b"v")
        producer.flush()
        assert hook.until(alert, "firing")["value"] > 0.3
        producer.commit_transaction()
        hook.until(alert, "cleared")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_a_directory_that_has_failed_is_told_until_a_start_without_it(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("this is no directory")
    alert = "PenstockLogDirectoryOffline"
    with receiver() as hook:
        with node_with_alerts(tmp_path, hook, log_dirs=f"{good},{bad}") as node:
            hook.until(alert, "firing")
            until("it was taken", lambda: "firing" in delivered(node).values())
        with node_with_alerts(tmp_path, hook, log_dirs=str(good)):
            hook.until(alert, "cleared")
        assert hook.told(alert) == [("firing", ""), ("cleared", "")]


def test_a_certificate_that_expires_is_told_until_it_is_replaced(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path / "authority", days=5)
    settings = {name.replace(".", "_"): text for name, text in files.node_settings().items()}
    alert = "PenstockCertificateExpires"
    with (
        receiver() as hook,
        node_with_alerts(
            tmp_path / "data",
            hook,
            listeners="SSL://127.0.0.1:0",
            penstock_alerts_topic="",
            **settings,
        ),
    ):
        told = hook.until(alert, "firing")
        assert told["subject"] == "SSL"
        assert 4 * 86_400 < told["value"] < 5 * 86_400
        TlsFiles(tmp_path / "authority", days=30).node()
        hook.until(alert, "cleared")
        assert hook.told(alert) == [("firing", "SSL"), ("cleared", "SSL")]


def test_errors_of_producers_are_told_while_they_come(tmp_path: Path) -> None:
    alert = "PenstockProduceErrors"
    with (
        receiver() as hook,
        node_with_alerts(
            tmp_path, hook, **NO_TOPIC, penstock_alerts_produce_window_ms="1000"
        ) as node,
    ):
        create(node, "strict", **{"max.message.bytes": "10"})

        def refused() -> bool:
            write(node, "strict")
            return bool(hook.told(alert))

        until("errors are told of", refused)
        assert hook.until(alert, "firing")["value"] == 1
        hook.until(alert, "cleared")
        assert hook.told(alert) == [("firing", ""), ("cleared", "")]


def test_alerts_that_cannot_be_written_are_no_errors_of_producers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FillingDisk()
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node,
    ):
        create(node, TOPIC, **{"max.message.bytes": "10"})
        disk.free_part = 0.1
        hook.until("PenstockDiskFilling", "firing")
        until("it is logged", lambda: "alerts not written to their topic" in caplog.text)
        disk.free_part = 0.5
        hook.until("PenstockDiskFilling", "cleared")
        assert hook.told("PenstockProduceErrors") == []


class SlowDisk(RealDisk):
    """Its syncs take as long as a test says."""

    sync_seconds = 0.0

    async def sync(self, files: Sequence[File]) -> None:
        await asyncio.sleep(self.sync_seconds)
        await super().sync(files)


def test_slow_produce_requests_are_told_while_they_come(tmp_path: Path) -> None:
    alert = "PenstockProduceSlow"
    disk = SlowDisk()
    with (
        receiver() as hook,
        node_with_alerts(
            tmp_path,
            hook,
            disk=disk,
            **NO_TOPIC,
            penstock_alerts_for_ms="0",
            penstock_alerts_produce_ms="1000",
            penstock_alerts_produce_window_ms="1000",
        ) as node,
    ):
        create(node, "orders", **{"penstock.ack.fsync": "true"})
        disk.sync_seconds = 1.2
        write(node, "orders")  # the first request of a node is timed
        told = hook.until(alert, "firing")
        assert told["unit"] == "ms"
        assert told["value"] == 1_048.576
        disk.sync_seconds = 0
        hook.until(alert, "cleared")
        assert hook.told(alert) == [("firing", ""), ("cleared", "")]


def test_a_log_that_cannot_be_compacted_is_told_until_it_is_gone(tmp_path: Path) -> None:
    alert = "PenstockCompactionFails"
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, **NO_TOPIC, log_cleaner_backoff_ms="100") as node,
    ):
        create(
            node,
            "states",
            **{
                "cleanup.policy": "compact",
                "segment.bytes": "1048576",
                "min.cleanable.dirty.ratio": "0.01",
            },
        )
        producer = Producer({"bootstrap.servers": node.bootstrap})
        producer.produce("states", b"v" * 400_000, key=b"k")
        producer.flush()
        [log] = (tmp_path / "node-1" / "states-0").glob("*.log")
        with log.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"w")
        for _ in range(3):  # ends the segment, so that it is to be compacted
            producer.produce("states", b"v" * 400_000, key=b"k")
            producer.flush()
        assert hook.until(alert, "firing")["value"] == 1
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        [gone] = admin.delete_topics(["states"]).values()
        gone.result(WAIT_SECONDS)
        hook.until(alert, "cleared")
        assert hook.told(alert) == [("firing", ""), ("cleared", "")]


LOADED = """
import sys
from pathlib import Path
sys.path.append(sys.argv[2])
from rig.running_node import running_node
with running_node(Path(sys.argv[1]), penstock_alerts_enable=sys.argv[3]):
    names = ("penstock.node.alerts", "penstock.alerts.machine", "penstock.broker.alerts.figures",
             "penstock.client.produce.producer")
    print([name in sys.modules for name in names])
"""


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_nothing_of_it_is_loaded_by_a_node_that_evaluates_none(
    tmp_path: Path, enabled: str
) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "data"), tests, enabled],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    assert outcome.stdout.strip() == str([enabled == "true"] * 4)


def test_a_start_says_which_alerts_it_leaves_out_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock")
    with receiver() as hook, node_with_alerts(tmp_path, hook):
        pass
    [line] = [one.getMessage() for one in caplog.records if "are evaluated" in one.getMessage()]
    assert "PenstockMessageRate: no capacity is set" in line
    assert not hook.requests
