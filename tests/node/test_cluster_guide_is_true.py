"""What docs/cluster.md says about nodes on several machines works, with real processes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.model.settings.broker import parse_broker
from penstock.world.properties import parse_properties
from rig.clients.confluent import QUIET
from rig.fixed_voters import FixedVoters, start
from rig.source_tree import ROOT

GUIDE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
WAIT_SECONDS = 60
MACHINES = {1: "alpha", 2: "beta", 3: "gamma"}


@pytest.fixture
def voters() -> Iterator[FixedVoters]:
    with FixedVoters() as voters:
        yield voters


def shown(number: int, voters: FixedVoters, directory: Path) -> dict[str, str]:
    """The file of the guide as it is on one machine, with this one's addresses."""
    [block] = re.findall(r"^ *```properties\n(.*?)^ *```$", GUIDE, re.MULTILINE | re.DOTALL)
    settings = parse_properties(re.sub(r"^ +", "", block, flags=re.MULTILINE))
    machine = MACHINES[number]
    settings["node.id"] = str(number)
    settings["broker.rack"] = machine
    settings["advertised.listeners"] = f"PLAINTEXT://{machine}:9092"
    settings["log.dirs"] = str(directory)
    for other, name in MACHINES.items():
        for setting, value in settings.items():
            value = value.replace(f"{name}:9092", voters.address(other))
            settings[setting] = value.replace(f"{name}:9093", voters.controller(other))
    own = (voters.address(number), voters.controller(number))
    client, controller = (address.rpartition(":")[2] for address in own)
    settings["listeners"] = settings["listeners"].replace(":9092", f":{client}")
    settings["listeners"] = settings["listeners"].replace(":9093", f":{controller}")
    return settings


def produce_and_consume(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
    [made] = admin.create_topics([NewTopic(topic, partitions)]).values()
    made.result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": QUIET})
    for index in range(partitions):
        producer.produce(topic, str(index), partition=index)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            # Else its end waits for a coordinator; two brokers have none by Kafka's defaults.
            "enable.auto.commit": False,
            "log_level": QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    got = set()
    while len(got) < partitions:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None and message.error() is None
        got.add(message.value())
    consumer.close()


def test_three_machines_step_by_step(voters: FixedVoters, tmp_path: Path) -> None:
    nodes = []
    for number in MACHINES:
        settings = shown(number, voters, tmp_path / f"node-{number}")
        assert parse_broker(settings).unknown == ()
        nodes.append(voters.made(number, tmp_path, settings))
    start(*nodes)
    admin = AdminClient({"bootstrap.servers": voters.address(3), "log_level": QUIET})
    described = admin.describe_cluster().result(WAIT_SECONDS)
    assert sorted((node.id, node.rack) for node in described.nodes) == list(MACHINES.items())
    produce_and_consume(voters.bootstrap, "orders", 6)


def test_controllers_and_brokers_on_machines_of_their_own(
    voters: FixedVoters, tmp_path: Path
) -> None:
    alone = {"controller.quorum.voters": f"1@{voters.controller(1)}"}
    controller = {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{voters.controller(1)}",
        "inter.broker.listener.name": None,
    }
    made = [voters.made(1, tmp_path, {**alone, **controller})]
    for number in (2, 3):
        broker = {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{voters.address(number)}",
        }
        made.append(voters.made(number, tmp_path, alone | broker))
    start(*made)
    assert f"penstock ready: {voters.controller(1)}" in made[0].logged()
    bootstrap = f"{voters.address(2)},{voters.address(3)}"
    produce_and_consume(bootstrap, "orders", 4)
    for node in reversed(made):
        assert node.end() == 0


def test_settings_that_the_guide_explains_have_the_defaults_that_it_says() -> None:
    explained = dict(re.findall(r"`([a-z.]+\.ms)` \((\d+)\)", GUIDE))
    assert len(explained) == 5
    defaults = parse_broker({})
    for name, value in explained.items():
        assert str(getattr(defaults, name.replace(".", "_"))) == value, name
