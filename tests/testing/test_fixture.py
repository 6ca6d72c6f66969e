"""The broker as a fixture: what a user's test sees of it."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import confluent_kafka
import pytest

from penstock.client.network.errors import Refused
from penstock.log.partition_log import PartitionLog
from penstock.model.error import ErrorCode
from penstock.model.settings.setting import InvalidSetting
from penstock.testing import Broker, BrokerFailed, running_broker
from rig.dialogue import Dialogue
from rig.transaction_dialogue import TransactionDialogue

WAIT_SECONDS = 60


def deliver(bootstrap: str, topic: str, *, timeout_ms: int = 60_000) -> object:
    """The error of one produced record, or None."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms}
    )
    errors: list[object] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_ms / 1000 + 5)
    return errors[0]


def test_other_clients_use_it(penstock: Broker) -> None:
    assert deliver(penstock.bootstrap, penstock.topic()) is None


def test_topics_have_names_partitions_and_settings(penstock: Broker) -> None:
    assert penstock.topic("named", partitions=3, retention_ms=1_000) == "named"
    assert penstock.topic() != penstock.topic()
    with pytest.raises(Refused, match="already exists"):
        penstock.topic("named")
    with pytest.raises(Refused, match=r"retention\.ms"):
        penstock.topic(retention_ms="soon")


def test_brokers_are_apart_from_each_other(penstock: Broker) -> None:
    with running_broker() as other:
        assert other.bootstrap != penstock.bootstrap
        assert other.topic("a") == penstock.topic("a")


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with running_broker() as broker:
        broker.topic()
        assert broker.data.is_dir()
        assert set(threading.enumerate()) > before
    assert not broker.data.exists()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread


def test_records_stay_in_a_directory_of_the_users_own(tmp_path: Path) -> None:
    with running_broker(data=tmp_path / "data") as broker:
        broker.topic("kept")
    with running_broker(data=tmp_path / "data") as broker, pytest.raises(Refused):
        broker.topic("kept")


def test_settings_are_kafkas() -> None:
    with running_broker(settings={"auto.create.topics.enable": "false"}) as broker:
        assert deliver(broker.bootstrap, "unknown", timeout_ms=500) is not None
    with pytest.raises(InvalidSetting), running_broker(settings={"num.partitions": "many"}):
        pass


def test_two_phase_commit_needs_no_setting_in_a_test(penstock: Broker) -> None:
    talk = TransactionDialogue(Dialogue(penstock.bootstrap, "orders"))
    producer = talk.producer()
    answer = talk.init(producer, version=6, enable2_pc=True, keep_prepared_txn=True)
    assert answer.error_code == ErrorCode.NONE
    talk.dialogue.close()


def test_running_loop_of_the_user_is_left_alone() -> None:
    async def work() -> str:
        with running_broker() as broker:
            return broker.topic()

    assert asyncio.run(work())


@pytest.mark.alters_code
def test_failed_assertion_ends_the_node_and_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("made to fail")

    with pytest.raises(BrokerFailed, match="made to fail"), running_broker() as broker:
        topic = broker.topic()
        monkeypatch.setattr(PartitionLog, "append", fail)
        assert deliver(broker.bootstrap, topic, timeout_ms=500) is not None
        with pytest.raises(BrokerFailed):
            broker.topic()


def test_old_records_go_when_a_test_asks_for_rounds_of_retention() -> None:
    """Else there are none: records of tests have dates of long ago."""
    asked = {"log.retention.check.interval.ms": "20"}
    with running_broker(settings=asked) as broker:
        partition = confluent_kafka.TopicPartition(broker.topic("old", retention_ms=1_000), 0)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("old", b"value", timestamp=1_700_000_000_000)
        assert producer.flush(WAIT_SECONDS) == 0
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
        )
        while consumer.get_watermark_offsets(partition, timeout=WAIT_SECONDS) != (1, 1):
            pass
        consumer.close()


def test_plugin_gives_the_fixtures_to_any_test_suite(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            def test_one(penstock, penstock_session):
                assert penstock.bootstrap != penstock_session.bootstrap
                penstock_session.topic("shared")

            def test_two(penstock_session):
                assert penstock_session.topic() != "shared"
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_those_who_do_not_use_it_do_not_pay_for_it() -> None:
    code = (
        "import sys, penstock.testing.plugin;"
        "print(sorted(m for m in sys.modules if m.startswith('penstock')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == str(["penstock", "penstock.testing", "penstock.testing.plugin"])
