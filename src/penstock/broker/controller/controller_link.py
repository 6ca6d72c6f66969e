"""How a broker reaches the active controller, wherever that runs."""

from typing import Protocol, overload

from penstock.metadata.controller.brokers import (
    BrokerRegistered,
    BrokerUnfenced,
    RegisterBroker,
    UnfenceBroker,
)
from penstock.metadata.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DECISION_RECORDS_MAX
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

ANSWER_WAIT_MS_MAX = 30_000


def check_entries(count: int) -> None:
    """A decision is one step for all that is asked, and all clients wait for it: RequestError when
    so much is asked that its records would be too many anyway.
    """
    if count > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Too many entries in one request.")


class ControllerLink(Protocol):
    """`ask` returns once the answer is durable and this broker's own image shows it. RequestError
    when the controller refuses the whole request, or when no answer came in `wait_ms_max`: then it
    may still be done.
    """

    @overload
    async def ask(
        self, request: CreateTopicsRequest, *, wait_ms_max: int = ...
    ) -> CreateTopicsResponse: ...
    @overload
    async def ask(
        self, request: DeleteTopicsRequest, *, wait_ms_max: int = ...
    ) -> DeleteTopicsResponse: ...
    @overload
    async def ask(
        self, request: CreatePartitionsRequest, *, wait_ms_max: int = ...
    ) -> CreatePartitionsResponse: ...
    @overload
    async def ask(
        self, request: IncrementalAlterConfigsRequest, *, wait_ms_max: int = ...
    ) -> IncrementalAlterConfigsResponse: ...
    @overload
    async def ask(
        self, request: AlterConfigsRequest, *, wait_ms_max: int = ...
    ) -> AlterConfigsResponse: ...
    @overload
    async def ask(
        self, request: AllocateProducerIds, *, wait_ms_max: int = ...
    ) -> ProducerIdBlock: ...
    @overload
    async def ask(self, request: RegisterBroker, *, wait_ms_max: int = ...) -> BrokerRegistered: ...
    @overload
    async def ask(self, request: UnfenceBroker, *, wait_ms_max: int = ...) -> BrokerUnfenced: ...
