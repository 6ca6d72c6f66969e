"""A broker that a test stops, starts, restarts and kills."""

import asyncio
import socket
from pathlib import Path

import confluent_kafka
import pytest

from penstock.log.partition_log import PartitionLog
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode
from penstock.node.config import NodeConfig
from penstock.testing import Broker, BrokerFailed, InvalidSetting, Refused, running_broker
from penstock.testing.node_thread import NodeThread
from rig.held_port import HeldPort

CLEAN_STOP = Path("node-1", ".kafka_cleanshutdown")


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_restart_keeps_records_and_address(penstock: Broker) -> None:
    penstock.produce("orders", ["one"])
    before = penstock.bootstrap
    penstock.restart()
    assert penstock.bootstrap == before
    penstock.produce("orders", ["two"])
    assert values(penstock, "orders") == [b"one", b"two"]


def test_client_that_is_connected_goes_on_after_a_restart(penstock: Broker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})
    for value in ("one", "two"):
        producer.produce("orders", value)
        assert producer.flush(60) == 0
        penstock.restart()
    assert values(penstock, "orders") == [b"one", b"two"]


def test_stop_then_start_and_both_are_harmless_twice(penstock: Broker) -> None:
    penstock.produce("orders", ["one"])
    penstock.stop()
    penstock.stop()
    assert (penstock.data / CLEAN_STOP).exists()
    penstock.start()
    penstock.start()
    assert values(penstock, "orders") == [b"one"]


def test_killed_broker_leaves_no_mark_of_a_clean_stop_and_loses_nothing_acked(
    penstock: Broker,
) -> None:
    penstock.produce("orders", ["one"])
    penstock.kill()
    penstock.kill()
    assert not (penstock.data / CLEAN_STOP).exists()
    penstock.start()
    assert values(penstock, "orders") == [b"one"]


@pytest.mark.parametrize("end", [Broker.stop, Broker.kill])
def test_port_is_closed_and_stays_the_brokers_between_two_lives(
    penstock: Broker, end: "object"
) -> None:
    assert callable(end)
    end(penstock)
    host, port = penstock.bootstrap.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    others = [HeldPort() for _ in range(100)]
    assert int(port) not in {other.number for other in others}
    penstock.start()


def test_broker_that_does_not_run_says_so(penstock: Broker) -> None:
    penstock.stop()
    with pytest.raises(BrokerFailed, match=r"does not run: call start\(\)"):
        penstock.topic()
    with pytest.raises(BrokerFailed, match="does not run"):
        penstock.produce("orders", ["one"])
    with pytest.raises(BrokerFailed, match="does not run"):
        penstock.records("orders")


def test_fixed_port_by_choice() -> None:
    port = HeldPort()
    with running_broker(port=port.number) as broker:
        assert broker.bootstrap == port.address


def test_port_that_is_taken_is_told_in_one_line(penstock: Broker) -> None:
    port = int(penstock.bootstrap.rpartition(":")[2])
    with (
        pytest.raises(
            BrokerFailed, match=rf"^the broker could not start: cannot listen on .*{port}"
        ),
        running_broker(port=port),
    ):
        pass


def test_broker_that_is_not_ready_in_time_has_ended(tmp_path: Path) -> None:
    port = HeldPort()
    life = NodeThread([config_at(port, tmp_path)])
    with pytest.raises(BrokerFailed, match="not ready within 0 s"):
        life.start(wait_seconds_max=0)
    assert not life.is_alive
    with running_broker(data=tmp_path, port=port.number) as broker:
        broker.produce("orders", ["one"])


@pytest.mark.alters_code
def test_broker_that_would_never_be_ready_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def open_never(_: OpenNode) -> None:
        await asyncio.Event().wait()

    port = HeldPort()
    life = NodeThread([config_at(port, tmp_path)])
    with monkeypatch.context() as patched:
        patched.setattr(OpenNode, "open", open_never)
        with pytest.raises(BrokerFailed, match="not ready within 1 s"):
            life.start(wait_seconds_max=1)
    assert not life.is_alive
    with running_broker(data=tmp_path, port=port.number) as broker:
        broker.produce("orders", ["one"])


def config_at(port: HeldPort, data: Path) -> NodeConfig:
    settings = parse_broker({"listeners": f"PLAINTEXT://{port.address}"})
    return NodeConfig(node_id=NodeId(1), data_directory=str(data), settings=settings)


def test_port_and_listeners_are_not_given_both() -> None:
    with (
        pytest.raises(InvalidSetting, match="listeners: Give it or a port, not both"),
        running_broker(port=1, settings={"listeners": "PLAINTEXT://127.0.0.1:0"}),
    ):
        pass


@pytest.mark.alters_code
def test_failure_is_raised_once_and_the_next_start_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("made to fail")

    with running_broker(settings={"auto.create.topics.enable": False}) as broker:
        topic = broker.topic()
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "append", fail)
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 500}
            )
            producer.produce(topic, "value")
            producer.flush(60)
            with pytest.raises(BrokerFailed, match="made to fail"):
                broker.restart()
        broker.start()
        with pytest.raises(Refused, match="already exists"):
            broker.topic(topic)
