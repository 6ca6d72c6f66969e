"""The controller's table of requests: start here. Its state is in `state`."""

from typing import assert_never

from penstock.machine.decision import Decision
from penstock.metadata.controller.brokers import (
    BrokerRegistered,
    BrokerUnfenced,
    RegisterBroker,
    UnfenceBroker,
    register_broker,
    unfence_broker,
)
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.partitions import create_partitions
from penstock.metadata.controller.producer_ids import (
    AllocateProducerIds,
    ProducerIdBlock,
    allocate_producer_ids,
)
from penstock.metadata.controller.settings import alter_configs, incremental_alter_configs
from penstock.metadata.controller.topics import create_topics, delete_topics
from penstock.metadata.records import MetadataRecord
from penstock.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from penstock.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ControllerRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | IncrementalAlterConfigsRequest
    | AlterConfigsRequest
    | AllocateProducerIds
    | RegisterBroker
    | UnfenceBroker
)
ControllerReply = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
    | IncrementalAlterConfigsResponse
    | AlterConfigsResponse
    | ProducerIdBlock
    | BrokerRegistered
    | BrokerUnfenced
)


def decide(
    context: DecisionContext, request: ControllerRequest
) -> Decision[MetadataRecord, ControllerReply]:
    """The controller's decision about a request; RequestError when it refuses the whole request."""
    match request:
        case CreateTopicsRequest():
            return create_topics(context, request)
        case DeleteTopicsRequest():
            return delete_topics(context, request)
        case CreatePartitionsRequest():
            return create_partitions(context, request)
        case IncrementalAlterConfigsRequest():
            return incremental_alter_configs(context, request)
        case AlterConfigsRequest():
            return alter_configs(context, request)
        case AllocateProducerIds():
            return allocate_producer_ids(context, request)
        case RegisterBroker():
            return register_broker(context, request)
        case UnfenceBroker():
            return unfence_broker(context, request)
        case _:
            assert_never(request)
