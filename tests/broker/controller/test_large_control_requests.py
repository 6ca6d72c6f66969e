"""What asks the controller for too much at once is refused before any of it is looked at."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.api import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from penstock.broker.request.api_table import AnyApi
from penstock.model.error import ErrorCode
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.definition import Message
from penstock.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from penstock.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk

TOPIC = 2
TOO_MANY = DECISION_RECORDS_MAX + 1
LARGE: list[tuple[AnyApi, Message, type[Message], Callable[[Any], list[Any]]]] = [
    (
        create_topics.API,
        CreateTopicsRequest(topics=[CreatableTopic(name="a/b")] * TOO_MANY, timeout_ms=1000),
        CreateTopicsResponse,
        lambda reply: reply.topics,
    ),
    (
        delete_topics.API,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")] * TOO_MANY, timeout_ms=1000),
        DeleteTopicsResponse,
        lambda reply: reply.responses,
    ),
    (
        create_partitions.API,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)] * TOO_MANY),
        CreatePartitionsResponse,
        lambda reply: reply.results,
    ),
    (
        alter_configs.API,
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[AlterableConfig(name="x", value="y")] * TOO_MANY,
                )
            ]
        ),
        AlterConfigsResponse,
        lambda reply: reply.responses,
    ),
    (
        incremental_alter_configs.API,
        IncrementalAlterConfigsRequest(
            resources=[IncrementalResource(resource_type=TOPIC, resource_name="t")] * TOO_MANY
        ),
        IncrementalAlterConfigsResponse,
        lambda reply: reply.responses,
    ),
]


@pytest.mark.parametrize(
    ("api", "request_", "answer", "results"), LARGE, ids=[api.key.name for api, *_ in LARGE]
)
def test_too_many_entries_are_refused_as_a_whole(
    api: AnyApi, request_: Message, answer: type[Message], results: Callable[[Any], list[Any]]
) -> None:
    async def scenario(control: Control) -> None:
        before = control.log.end_offset
        reply = await control.ask(api, request_, answer)
        told = {result.error_code for result in results(reply)}
        assert told == {ErrorCode.POLICY_VIOLATION}
        assert control.log.end_offset == before

    run_with(MemoryDisk(), scenario)
