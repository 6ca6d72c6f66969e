"""ListConfigResources: what has a configuration, by kind, and kinds that never have one here."""

import pytest

from penstock.broker.api.create_topics import API as CREATE_TOPICS
from penstock.broker.api.describe_configs import API as DESCRIBE
from penstock.broker.api.incremental_alter_configs import API as ALTER
from penstock.broker.api.list_config_resources import API
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk

TOPIC, BROKER, GROUP = ResourceKind.TOPIC, ResourceKind.BROKER, ResourceKind.GROUP
CLIENT_METRICS = ResourceKind.CLIENT_METRICS
SET, DELETE = 0, 1
SESSION = "consumer.session.timeout.ms"


async def create(control: Control, *names: str) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    await control.ask(CREATE_TOPICS, CreateTopicsRequest(topics=topics), CreateTopicsResponse)


async def alter(
    control: Control, kind: int, name: str, setting: str, value: str | None
) -> tuple[int, str | None]:
    operation = DELETE if value is None else SET
    change = AlterableConfig(name=setting, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    reply = await control.ask(ALTER, request, IncrementalAlterConfigsResponse)
    return reply.responses[0].error_code, reply.responses[0].error_message


async def listed(control: Control, *kinds: int, listener: str = "PLAINTEXT") -> list[object]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    reply = await control.ask(API, request, ListConfigResourcesResponse, listener=listener)
    assert reply.error_code == ErrorCode.NONE
    return [(one.resource_type, one.resource_name) for one in reply.config_resources]


def test_topics_brokers_and_groups_with_settings_are_listed() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders", "payments")
        assert await alter(control, GROUP, "readers", SESSION, "50000") == (0, None)
        topics = [(TOPIC, "orders"), (TOPIC, "payments")]
        assert await listed(control, TOPIC) == topics
        assert await listed(control, BROKER) == [(BROKER, "1")]
        assert await listed(control, GROUP) == [(GROUP, "readers")]
        everything = [(GROUP, "readers"), (BROKER, "1"), *topics]
        assert await listed(control) == everything
        assert await listed(control, *reversed(ResourceKind), *ResourceKind) == everything
        await alter(control, GROUP, "readers", SESSION, None)
        assert await listed(control, GROUP) == []

    run_with(MemoryDisk(), scenario)


def test_a_broker_is_listed_to_those_who_reach_it() -> None:
    async def scenario(control: Control) -> None:
        assert await listed(control, BROKER, listener="ELSEWHERE") == []

    run_with(MemoryDisk(), scenario)


def test_many_topics_are_all_listed() -> None:
    async def scenario(control: Control) -> None:
        names = [f"topic-{number:04}" for number in range(1_200)]
        await create(control, *names)
        assert await listed(control, TOPIC) == [(TOPIC, name) for name in names]

    run_with(MemoryDisk(), scenario)


def test_version_0_asks_for_client_metrics_alone() -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        request = ListConfigResourcesRequest()
        reply = await control.ask(API, request, ListConfigResourcesResponse, version=0)
        assert (reply.error_code, reply.config_resources) == (ErrorCode.NONE, [])
        for name in ("basic", "others"):
            assert await alter(control, CLIENT_METRICS, name, "metrics", "*") == (0, None)
        reply = await control.ask(API, request, ListConfigResourcesResponse, version=0)
        assert [one.resource_name for one in reply.config_resources] == ["basic", "others"]
        assert await listed(control, CLIENT_METRICS) == [
            (CLIENT_METRICS, "basic"),
            (CLIENT_METRICS, "others"),
        ]
        await alter(control, CLIENT_METRICS, "basic", "metrics", None)
        assert await listed(control, CLIENT_METRICS) == [(CLIENT_METRICS, "others")]

    run_with(MemoryDisk(), scenario)


@pytest.mark.parametrize("kinds", [[0], [1], [99], [-1], [2, 99]])
def test_kinds_that_nobody_knows_are_refused(kinds: list[int]) -> None:
    async def scenario(control: Control) -> None:
        await create(control, "orders")
        request = ListConfigResourcesRequest(resource_types=kinds)
        reply = await control.ask(API, request, ListConfigResourcesResponse)
        assert (reply.error_code, reply.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])

    run_with(MemoryDisk(), scenario)


def test_what_has_no_configuration_here_is_refused_in_one_line() -> None:
    kind = ResourceKind.BROKER_LOGGER
    why = "BROKER_LOGGER is not supported: the log levels of a broker are fixed while it runs"

    async def scenario(control: Control) -> None:
        asked = DescribeConfigsResource(resource_type=kind, resource_name="1")
        reply = await control.ask(
            DESCRIBE, DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse
        )
        [result] = reply.results
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, why)
        assert await alter(control, kind, "1", "metrics", "x") == (ErrorCode.INVALID_REQUEST, why)
        assert await listed(control, kind) == []

    run_with(MemoryDisk(), scenario)
