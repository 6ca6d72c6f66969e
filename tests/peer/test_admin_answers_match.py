"""What an administrator is told, of topics and settings, is what Apache Kafka tells."""

from collections.abc import Callable

import pytest

from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.list_config_resources import ListConfigResourcesRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from rig.dialogue import Dialogue

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# All but those of tiered storage and replication, and `min.insync.replicas`, which Apache Kafka
# writes into a new cluster's dynamic settings for the sake of eligible leader replicas.
TOPIC_SETTINGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
)


def create(dialogue: Dialogue, *topics: CreatableTopic, check_only: bool = False) -> None:
    request = CreateTopicsRequest(topics=list(topics), validate_only=check_only)
    for version in (2, 4, 5, 6, 7):
        answer = dialogue.exchange(request, version=version)
        for topic in answer.topics:
            seen = (topic.name, topic.error_code, topic.num_partitions, topic.replication_factor)
            dialogue.answers.append((version, seen))


def creations_that_fail(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    fresh = dialogue.topic + "-fresh"

    def wanted(name: str = fresh, partitions: int = 1, replicas: int = 1) -> CreatableTopic:
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)

    create(dialogue, wanted(dialogue.topic))
    create(dialogue, wanted(partitions=0))
    create(dialogue, wanted(partitions=-2))
    create(dialogue, wanted(replicas=3))
    create(dialogue, wanted(replicas=0))
    create(dialogue, wanted(), wanted())
    for name in ("", ".", "..", "a/b", "ü", "x" * 250, "__cluster_metadata"):
        create(dialogue, wanted(name), check_only=True)
    place = CreatableReplicaAssignment(partition_index=0, broker_ids=[77])
    assigned = CreatableTopic(
        name=fresh, num_partitions=-1, replication_factor=-1, assignments=[place]
    )
    create(dialogue, assigned)


def a_creation_that_is_only_checked(dialogue: Dialogue) -> None:
    name = dialogue.topic + "-checked"
    wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=-1)
    create(dialogue, wanted, check_only=True)
    ask_metadata(dialogue, name)


def settings_that_are_wrong(dialogue: Dialogue) -> None:
    for name, value in [
        ("retention.ms", "soon"),
        ("retention.ms", None),
        ("no.such.setting", "1"),
        ("cleanup.policy", "shred"),
        ("compression.type", "rar"),
        ("segment.bytes", "1"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "Never"),
        ("min.cleanable.dirty.ratio", "2"),
        ("max.message.bytes", "-1"),
        ("preallocate", "perhaps"),
    ]:
        setting = CreatableTopicConfig(name=name, value=value)
        create(
            dialogue,
            CreatableTopic(
                name=dialogue.topic, num_partitions=1, replication_factor=1, configs=[setting]
            ),
        )


def defaults_of_a_topic(dialogue: Dialogue) -> None:
    dialogue.create_topic(retention_ms="1000", cleanup_policy="compact")
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=dialogue.topic, configuration_keys=list(TOPIC_SETTINGS)
    )
    for version in (1, 3, 4):
        request = DescribeConfigsRequest(resources=[resource])
        [result] = dialogue.exchange(request, version=version).results
        seen = [
            (one.name, one.value, one.config_source, one.is_sensitive, one.config_type)
            for one in sorted(result.configs, key=lambda config: str(config.name))
        ]
        dialogue.answers.append((version, result.error_code, seen))


def settings_of_nobody(dialogue: Dialogue) -> None:
    for kind, name in [(TOPIC, "no-such-topic"), (TOPIC, ""), (BROKER, "77"), (99, "x")]:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name)
        dialogue.ask(DescribeConfigsRequest(resources=[resource]), version=4)


def changes_of_settings(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    for changes in [
        [("retention.ms", SET, "5")],
        [("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("retention.ms", APPEND, "5")],
        [("retention.ms", DELETE, None)],
        [("retention.ms", SET, "x")],
        [("no.such.setting", SET, "x")],
        [("retention.ms", SET, "7"), ("retention.ms", SET, "8")],
        [("segment.ms", SET, "70000"), ("retention.ms", SET, "x")],
    ]:
        alter(dialogue, TOPIC, dialogue.topic, changes)
        dialogue.settle()
        resource = DescribeConfigsResource(
            resource_type=TOPIC,
            resource_name=dialogue.topic,
            configuration_keys=["retention.ms", "cleanup.policy", "segment.ms"],
        )
        request = DescribeConfigsRequest(resources=[resource])
        [result] = dialogue.exchange(request, version=4).results
        dialogue.answers.append(sorted((one.name, one.value) for one in result.configs))
    alter(dialogue, TOPIC, "no-such-topic", [("retention.ms", SET, "5")])


def alter(
    dialogue: Dialogue, kind: int, name: str, changes: list[tuple[str, int, str | None]]
) -> None:
    configs = [
        AlterableConfig(name=setting, config_operation=operation, value=value)
        for setting, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    dialogue.ask(IncrementalAlterConfigsRequest(resources=[resource]), version=1)


def more_partitions(dialogue: Dialogue) -> None:
    dialogue.create_topic(partitions=2)
    for name, count in [
        (dialogue.topic, 1),
        (dialogue.topic, 2),
        (dialogue.topic, 0),
        ("no-such-topic", 5),
        (dialogue.topic, 4),
    ]:
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
        dialogue.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000), version=3)


def deletions(dialogue: Dialogue) -> None:
    topic_id = dialogue.create_topic()
    delete = dialogue.ask
    delete(DeleteTopicsRequest(topic_names=["no-such-topic"], timeout_ms=5_000), version=5)
    by_id = DeleteTopicState(topic_id=bytes(range(16)))
    delete(DeleteTopicsRequest(topics=[by_id], timeout_ms=5_000), version=6)
    for name in ("", dialogue.topic, "no-such-topic"):  # either of the two, never both
        both = DeleteTopicState(name=name, topic_id=topic_id)
        delete(DeleteTopicsRequest(topics=[both], timeout_ms=5_000), version=6)
    by_id = DeleteTopicState(topic_id=topic_id)
    delete(DeleteTopicsRequest(topics=[by_id], timeout_ms=5_000), version=6)


def metadata_of_strangers(dialogue: Dialogue) -> None:
    dialogue.create_topic(partitions=2)
    for version in range(1, 14):
        ask_metadata(dialogue, dialogue.topic, version=version)
        ask_metadata(dialogue, "no-such-topic", version=version)
        ask_metadata(dialogue, "a/b", version=version)
    stranger = MetadataRequestTopic(topic_id=bytes(range(16)), name=None)
    dialogue.ask(MetadataRequest(topics=[stranger]), version=12)


def metadata_by_id(dialogue: Dialogue) -> None:
    """Java sends the name "" with an id: the id decides, where ids are asked for at all."""
    topic_id = dialogue.create_topic(partitions=2)
    for version in range(10, 14):
        for known in (topic_id, bytes(range(16))):
            for name in ("", None, dialogue.topic, "no-such-topic", "a/b"):
                asked = MetadataRequestTopic(topic_id=known, name=name)
                dialogue.ask(MetadataRequest(topics=[asked]), version=version)
    many = [MetadataRequestTopic(topic_id=topic_id, name=name) for name in ("", None, "x")]
    dialogue.ask(MetadataRequest(topics=many), version=12)


def ask_metadata(dialogue: Dialogue, name: str, *, version: int = 12) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    dialogue.ask(request, version=version)


def configurations_that_are_listed(dialogue: Dialogue) -> None:
    """Topics and groups of other conversations are on the list too, and not the same."""
    dialogue.create_topic()
    group = f"group-of-{dialogue.topic}"
    session = "consumer.session.timeout.ms"
    alter(dialogue, GROUP, group, [(session, SET, "50000")])
    dialogue.settle()
    for kinds in ([], [GROUP], [TOPIC], [BROKER], [TOPIC, GROUP, TOPIC], [CLIENT_METRICS]):
        request = ListConfigResourcesRequest(resource_types=kinds)
        reply = dialogue.exchange(request, version=1)
        found = [(one.resource_type, one.resource_name) for one in reply.config_resources]
        own = [one for one in found if one in [(TOPIC, dialogue.topic), (GROUP, group)]]
        brokers = [one for one in found if one[0] == BROKER]
        dialogue.answers.append((kinds, reply.error_code, own, brokers))
    for kinds in ([0], [1], [99], [-1], [TOPIC, 99]):
        dialogue.ask(ListConfigResourcesRequest(resource_types=kinds), version=1)
    dialogue.ask(ListConfigResourcesRequest(), version=0)
    alter(dialogue, GROUP, group, [(session, SET, "1")])
    alter(dialogue, GROUP, "", [(session, SET, "50000")])
    alter(dialogue, GROUP, group, [("no.such.setting", SET, "1")])
    alter(dialogue, GROUP, group, [(session, DELETE, None)])
    dialogue.settle()
    reply = dialogue.exchange(ListConfigResourcesRequest(resource_types=[GROUP]), version=1)
    assert group not in [one.resource_name for one in reply.config_resources]


def topics_by_pages(dialogue: Dialogue) -> None:
    dialogue.create_topic(partitions=5)
    asked = [TopicRequest(name=name) for name in (dialogue.topic, "no-such-topic")]
    for limit in (2, 5, 2_000):
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit)
        dialogue.ask(request, version=0)


@pytest.mark.parametrize(
    "talk",
    [
        creations_that_fail,
        a_creation_that_is_only_checked,
        settings_that_are_wrong,
        defaults_of_a_topic,
        settings_of_nobody,
        changes_of_settings,
        more_partitions,
        deletions,
        metadata_of_strangers,
        metadata_by_id,
        configurations_that_are_listed,
        topics_by_pages,
    ],
    ids=lambda talk: talk.__name__,
)
def test_an_administrator_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)
