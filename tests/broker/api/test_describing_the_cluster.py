"""DescribeCluster, DescribeTopicPartitions with its pages, DescribeConfigs."""

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.describe_cluster import API as DESCRIBE_CLUSTER
from penstock.broker.api.describe_configs import API as DESCRIBE_CONFIGS
from penstock.broker.api.describe_topic_partitions import API as DESCRIBE_TOPIC_PARTITIONS
from penstock.broker.api.incremental_alter_configs import API as ALTER
from penstock.model.error import ErrorCode
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk

TOPIC, BROKER = 2, 4


async def create(control: Control, name: str, partitions: int = 1, **config: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in config.items()
        ],
    )
    reply = await control.ask(
        CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
    )
    assert reply.topics[0].error_code == ErrorCode.NONE


async def describe(
    control: Control, kind: int, name: str, *keys: str, version: int | None = None
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    reply = await control.ask(DESCRIBE_CONFIGS, request, DescribeConfigsResponse, version=version)
    return reply.results[0]


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_pages_of_any_size_give_every_partition_once(page: int) -> None:
    async def scenario(control: Control) -> None:
        for name, partitions in (("b", 3), ("a", 1), ("c", 2)):
            await create(control, name, partitions)
        seen: list[tuple[str | None, int]] = []
        cursor: Cursor | None = None
        for _ in range(10):
            request = DescribeTopicPartitionsRequest(response_partition_limit=page, cursor=cursor)
            reply = await control.ask(
                DESCRIBE_TOPIC_PARTITIONS, request, DescribeTopicPartitionsResponse
            )
            found = [
                (topic.name, part.partition_index)
                for topic in reply.topics
                for part in topic.partitions
            ]
            assert 0 < len(found) <= page
            seen += found
            cursor = reply.next_cursor
            if cursor is None:
                break
        assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]

    run_with(MemoryDisk(), scenario)


def test_a_missing_topic_is_told_among_the_others() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "b")
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in ("b", "a", "x/y")]
        )
        reply = await control.ask(
            DESCRIBE_TOPIC_PARTITIONS, request, DescribeTopicPartitionsResponse
        )
        assert [(topic.name, topic.error_code) for topic in reply.topics] == [
            ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("b", ErrorCode.NONE),
            ("x/y", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]

    run_with(MemoryDisk(), scenario)


def test_a_cursor_at_a_topic_since_deleted_goes_on_with_the_next() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "c", 2)
        request = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="b", partition_index=7))
        reply = await control.ask(
            DESCRIBE_TOPIC_PARTITIONS, request, DescribeTopicPartitionsResponse
        )
        assert [part.partition_index for part in reply.topics[0].partitions] == [0, 1]

    run_with(MemoryDisk(), scenario)


def test_the_cluster_tells_its_id_and_brokers() -> None:
    async def scenario(control: Control) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        reply = await control.ask(DESCRIBE_CLUSTER, request, DescribeClusterResponse)
        assert reply.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
        assert [(broker.broker_id, broker.port) for broker in reply.brokers] == [(1, 9092)]
        assert reply.cluster_authorized_operations > 0

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_controllers_are_not_to_be_found_on_a_broker(endpoint_type: int, code: int) -> None:
    async def scenario(control: Control) -> None:
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        reply = await control.ask(DESCRIBE_CLUSTER, request, DescribeClusterResponse)
        assert reply.error_code == code

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_a_topics_settings(version: int) -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders", retention_ms="1000")
        result = await describe(control, TOPIC, "orders", version=version)
        configs = {config.name: config for config in result.configs}
        assert configs["retention.ms"].value == "1000"
        assert len(configs) > 30
        if version == 0:
            assert not configs["retention.ms"].is_default
            assert configs["segment.ms"].is_default
        else:
            assert configs["retention.ms"].config_source == 1
            assert [found.name for found in configs["max.message.bytes"].synonyms] == [
                "message.max.bytes"
            ]
        if version >= 3:
            assert configs["retention.ms"].config_type == 5
            assert configs["retention.ms"].documentation

    run_with(MemoryDisk(), scenario)


def test_only_the_keys_asked_for_are_told() -> None:
    async def scenario(control: Control) -> None:
        result = await describe(control, BROKER, "1", "node.id", "num.partitions", "nonsense")
        assert [config.name for config in result.configs] == ["node.id", "num.partitions"]

    run_with(MemoryDisk(), scenario)


def test_a_dynamic_setting_shows_for_broker_cluster_and_topics() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        change = alter.AlterableConfig(name="message.max.bytes", config_operation=0, value="2000")
        resource = alter.AlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=[change]
        )
        reply = await control.ask(
            ALTER,
            alter.IncrementalAlterConfigsRequest(resources=[resource]),
            alter.IncrementalAlterConfigsResponse,
        )
        assert reply.responses[0].error_code == ErrorCode.NONE
        assert control.services.settings.message_max_bytes == 2000
        for kind, name, key in (
            (BROKER, "", "message.max.bytes"),
            (BROKER, "1", "message.max.bytes"),
            (TOPIC, "orders", "max.message.bytes"),
        ):
            (config,) = (await describe(control, kind, name, key)).configs
            assert (config.value, config.config_source) == ("2000", 3)

    run_with(MemoryDisk(), scenario, message_max_bytes="3000")


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_here_is_refused(kind: int, name: str, code: ErrorCode) -> None:
    async def scenario(control: Control) -> None:
        result = await describe(control, kind, name)
        assert (result.error_code, result.configs) == (code, [])

    run_with(MemoryDisk(), scenario)


def test_a_reply_is_bounded_whatever_is_asked_for() -> None:
    async def scenario(control: Control) -> None:
        names = [f"t{number}" for number in range(5)]
        for name in names:
            await create(control, name)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=TOPIC, resource_name=name, configuration_keys=None
                )
                for name in names
            ]
        )
        reply = await control.ask(DESCRIBE_CONFIGS, request, DescribeConfigsResponse)
        codes = [result.error_code for result in reply.results]
        assert codes == [ErrorCode.NONE] * 2 + [ErrorCode.INVALID_REQUEST] * 3

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("penstock.broker.api.describe_configs.DESCRIBED_SETTINGS_MAX", 50)
        run_with(MemoryDisk(), scenario)
