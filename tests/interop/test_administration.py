"""Topics and their settings, made, shown, changed and removed by every client's own admin."""

import time
from collections.abc import Callable

import pytest

from rig.clients.interface import KafkaClient, Message, Refused

UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_OUT_OF_RANGE = 1
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
TopicMaker = Callable[..., str]


def refusal_of(ask: Callable[[], object]) -> int:
    with pytest.raises(Refused) as caught:
        ask()
    return caught.value.code


def eventually(holds: Callable[[], bool]) -> None:
    """Metadata reaches a broker a moment after the controller has answered."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline


def test_a_topic_lives_from_creation_to_deletion(client: KafkaClient) -> None:
    name = f"life-of-{client.name}"
    client.create_topic(name, partitions=3, settings={"retention.ms": "3600000"})
    eventually(lambda: name in client.topics())
    assert client.partition_count(name) == 3
    assert client.topic_settings(name)["retention.ms"] == "3600000"
    client.delete_topic(name)
    eventually(lambda: name not in client.topics())
    client.create_topic(name)
    eventually(lambda: name in client.topics())
    assert client.offset_bounds(name, 0) == (0, 0)


def test_a_topic_is_created_once(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic()
    assert refusal_of(lambda: client.create_topic(name)) == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["a/b", "..", "white space", "x" * 250])
def test_a_name_that_is_no_file_name_is_refused(client: KafkaClient, name: str) -> None:
    assert refusal_of(lambda: client.create_topic(name)) == INVALID_TOPIC


@pytest.mark.parametrize(
    "settings",
    [{"retention.ms": "soon"}, {"no.such.setting": "1"}, {"cleanup.policy": "shred"}],
    ids=["type", "name", "choice"],
)
def test_a_wrong_setting_is_refused(client: KafkaClient, settings: dict[str, str]) -> None:
    name = f"wrong-{client.name}"
    assert refusal_of(lambda: client.create_topic(name, settings=settings)) == INVALID_CONFIG
    assert name not in client.topics()


def test_a_topic_that_is_not_there_cannot_be_deleted(client: KafkaClient) -> None:
    assert refusal_of(lambda: client.delete_topic("never-made")) == UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_added_and_never_taken_away(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic(partitions=2)
    client.add_partitions(name, total=5)
    eventually(lambda: client.partition_count(name) == 5)
    client.produce(name, [Message(value=b"new", partition=4)])
    assert client.offset_bounds(name, 4) == (0, 1)
    assert refusal_of(lambda: client.add_partitions(name, total=3)) == INVALID_PARTITIONS


def test_settings_are_changed_on_a_living_topic(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic()
    defaults = client.topic_settings(name)
    assert defaults["max.message.bytes"] == "1048588"
    assert defaults["retention.ms"] == "604800000"
    assert defaults["segment.bytes"] == "1073741824"
    client.alter_topic(name, {"max.message.bytes": "2000", "retention.ms": "7200000"})
    eventually(lambda: client.topic_settings(name)["max.message.bytes"] == "2000")
    changed = client.topic_settings(name)
    assert changed["retention.ms"] == "7200000"
    assert {k for k in defaults if defaults[k] != changed[k]} == {
        "max.message.bytes",
        "retention.ms",
    }
    assert refusal_of(lambda: client.alter_topic(name, {"retention.ms": "x"})) == INVALID_CONFIG


def test_deleted_records_are_gone_and_offsets_stay(client: KafkaClient, topic: TopicMaker) -> None:
    name = topic()
    client.produce(name, [Message(value=b"%d" % n, partition=0) for n in range(10)])
    assert client.delete_records(name, 0, before_offset=4) == 4
    assert client.offset_bounds(name, 0) == (4, 10)
    found = client.read(name, 0, from_offset=4, count=6)
    assert [record.value for record in found] == [b"%d" % n for n in range(4, 10)]
    assert client.delete_records(name, 0, before_offset=-1) == 10, "-1 is up to the end"


def test_the_cluster_is_one_node(client: KafkaClient) -> None:
    assert client.node_count() == 1
