"""Reports of alerts reach topic and webhook, whatever is away, and each once."""

import gc
import json
import logging
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.broker.alerts import webhook
from penstock.model.limit import ALERT_WEBHOOK_TRIES_MAX
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
from rig.running_node import RunningNode
from rig.webhook import receiver

HOUR_MS = 3_600_000


def test_an_alert_that_fires_over_a_restart_is_not_told_again(tmp_path: Path) -> None:
    disk = FillingDisk()
    alert = "PenstockDiskFilling"
    disk.free_part = 0.1
    with receiver() as hook:
        with node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node:
            hook.until(alert, "firing")
            until("it is in the topic", lambda: "firing" in states_in_topic(node).values())
            until("and that it was taken", lambda: "firing" in delivered(node).values())
        with node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node:
            disk.free_part = 0.5
            hook.until(alert, "cleared")
            until("its end was taken", lambda: set(delivered(node).values()) == {"cleared"})
        with node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node:
            create(node, "orders")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def delete_topic(node: RunningNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [gone] = admin.delete_topics([TOPIC]).values()
    gone.result(WAIT_SECONDS)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The webhook tries again soon."""
    monkeypatch.setattr(webhook, "ALERT_WEBHOOK_BACKOFF_MS", 10)
    monkeypatch.setattr(webhook, "ALERT_WEBHOOK_AGAIN_MS", 200)


@pytest.mark.usefixtures("impatient")
def test_a_webhook_that_is_away_over_a_restart_hears_of_what_fires_still(tmp_path: Path) -> None:
    alert = "PenstockDiskFilling"
    disk = FillingDisk()
    disk.free_part = 0.1
    settings = {"penstock_alerts_disk_ratio": "0.8"}
    with receiver() as hook:
        hook.is_away = True
        with node_with_alerts(tmp_path, hook, disk=disk, **settings) as node:
            until("it is in the topic", lambda: "firing" in states_in_topic(node).values())
            until("it was tried", lambda: hook.missed > 0)
            assert delivered(node) == {}
        hook.is_away = False
        with node_with_alerts(tmp_path, hook, disk=disk, **settings) as node:
            hook.until(alert, "firing")
            until("it was taken", lambda: "firing" in delivered(node).values())
            hook.is_away = True
            disk.free_part = 0.5
            until("its end is in the topic", lambda: "cleared" in states_in_topic(node).values())
        hook.is_away = False
        with node_with_alerts(tmp_path, hook, disk=disk, **settings):
            hook.until(alert, "cleared")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


@pytest.mark.usefixtures("impatient")
def test_a_webhook_that_is_away_for_longer_than_the_tries_hears_of_what_fires_still(
    tmp_path: Path,
) -> None:
    alert = "PenstockDiskFilling"
    disk = FillingDisk()
    disk.free_part = 0.1
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8"),
    ):
        hook.is_away = True
        until("it was tried longer", lambda: hook.missed > ALERT_WEBHOOK_TRIES_MAX + 2)
        hook.is_away = False
        hook.until(alert, "firing")
        disk.free_part = 0.5
        hook.until(alert, "cleared")
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_a_webhook_that_fails_at_first_is_asked_again_and_others_wait_their_turn(
    tmp_path: Path,
) -> None:
    disk = FillingDisk()
    disk.free_part = 0.1
    with (
        receiver(500, 302) as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8"),
    ):
        until("the third try", lambda: len(hook.requests) == 3)
        assert len({one["id"] for one in hook.bodies}) == 1
        disk.free_part = 0.5
        hook.until("PenstockDiskFilling", "cleared")
        assert len(hook.requests) == 4


def test_a_webhook_that_is_away_is_logged_without_its_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="penstock")
    monkeypatch.setattr(webhook, "ALERT_WEBHOOK_BACKOFF_MS", 10)
    disk = FillingDisk()
    disk.free_part = 0.1
    with receiver() as hook:
        pass  # nobody listens there any more
    with node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node:
        until("it is logged", lambda: "not taken by the webhook" in caplog.text)
        until("it is in the topic", lambda: "firing" in states_in_topic(node).values())
    assert "of=test" not in caplog.text


def test_a_topic_that_cannot_be_written_is_tried_again(
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
        delete_topic(node)
        until("it is in the topic", lambda: "firing" in states_in_topic(node).values())
        assert [state for state, _ in hook.told("PenstockDiskFilling")] == ["firing"]


@pytest.mark.parametrize("over_a_restart", [False, True])
def test_alerts_that_fire_are_written_again_to_a_topic_that_was_made_anew(
    tmp_path: Path, over_a_restart: bool
) -> None:
    alert = "PenstockDiskFilling"
    disk = FillingDisk()
    disk.free_part = 0.1
    settings = {"penstock_alerts_disk_ratio": "0.8"}
    with receiver() as hook:
        if over_a_restart:  # what was told before it is known from the topic alone
            with node_with_alerts(tmp_path, hook, disk=disk, **settings) as node:
                until("it was taken", lambda: "firing" in delivered(node).values())
        with node_with_alerts(tmp_path, hook, disk=disk, **settings) as node:
            until("it was taken", lambda: "firing" in delivered(node).values())
            [before] = states_in_topic(node)
            delete_topic(node)
            create(node, TOPIC, **{"cleanup.policy": "compact"})
            until("it is there again", lambda: states_in_topic(node) == {before: "firing"})
            until("and that it was taken", lambda: delivered(node) == {before: "firing"})
            disk.free_part = 0.5
            until("its end is there too", lambda: states_in_topic(node) == {before: "cleared"})
        assert [state for state, _ in hook.told(alert)] == ["firing", "cleared"]


def test_an_alert_that_makes_its_topic_anew_is_not_alone_in_it(tmp_path: Path) -> None:
    disk = FillingDisk()
    disk.free_part = 0.1
    with (
        receiver() as hook,
        node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8") as node,
    ):
        until("it is in the topic", lambda: "firing" in states_in_topic(node).values())
        [before] = states_in_topic(node)
        delete_topic(node)
        create(node, "orders")
        write(node, "orders", 3, age_ms=HOUR_MS)
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
        lag = "1/PenstockGroupLagSeconds/billing orders"
        until("both are there", lambda: {before, lag} <= states_in_topic(node).keys())
        assert set(states_in_topic(node).values()) == {"firing"}


def test_of_several_reports_that_cannot_be_written_each_is_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FillingDisk()
    directories = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    with (
        receiver() as hook,
        node_with_alerts(
            tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8", log_dirs=directories
        ) as node,
    ):
        create(node, TOPIC, **{"max.message.bytes": "10"})
        disk.free_part = 0.1
        hook.until("PenstockDiskFilling", "firing", times=2)
        until("it is logged", lambda: "alerts not written to their topic" in caplog.text)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_records_of_others_in_the_topic_do_no_harm(tmp_path: Path) -> None:
    disk = FillingDisk()
    with receiver() as hook:
        with node_with_alerts(tmp_path, hook) as node:
            create(node, TOPIC)
            producer = Producer({"bootstrap.servers": node.bootstrap})
            for value in (b"", b"\xff", b"[]", json.dumps({"alert": "x"}).encode()):
                producer.produce(TOPIC, value, key=b"k")
            producer.flush()
        with node_with_alerts(tmp_path, hook, disk=disk, penstock_alerts_disk_ratio="0.8"):
            disk.free_part = 0.1
            hook.until("PenstockDiskFilling", "firing")
        assert [one["alert"] for one in hook.bodies] == ["PenstockDiskFilling"]
