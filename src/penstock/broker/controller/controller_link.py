"""How a broker reaches the active controller, wherever that runs."""

from typing import NamedTuple, Protocol, TypeVar, overload

from penstock.metadata.controller.fencing import BrokersFenced, FenceBrokers
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.security.principal import Principal
from penstock.wire.definition import Message
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from penstock.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from penstock.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from penstock.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from penstock.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

ANSWER_WAIT_MS_MAX = 30_000
AnyReply = TypeVar("AnyReply", bound=Message)


class Requester(NamedTuple):
    """The client that a request is forwarded for."""

    principal: Principal
    host: str
    client_id: str | None = None  # with the correlation id: finds the request in several logs
    correlation_id: int = 0


def check_entries(count: int) -> None:
    """A decision is one step for all that is asked, and all clients wait for it: RequestError when
    so much is asked that its records would be too many anyway.
    """
    if count > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Too many entries in one request.")


class ControllerLink(Protocol):
    """`ask` returns once the answer is durable and this broker's own image shows it. RequestError
    when the controller refuses the whole request, or when no answer came in `wait_ms_max`: then it
    may still be done. Without a requester the node asks for itself.
    """

    @overload
    async def ask(
        self,
        request: CreateTopicsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> CreateTopicsResponse: ...
    @overload
    async def ask(
        self,
        request: DeleteTopicsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> DeleteTopicsResponse: ...
    @overload
    async def ask(
        self,
        request: CreatePartitionsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> CreatePartitionsResponse: ...
    @overload
    async def ask(
        self,
        request: IncrementalAlterConfigsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> IncrementalAlterConfigsResponse: ...
    @overload
    async def ask(
        self,
        request: AlterConfigsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AlterConfigsResponse: ...
    @overload
    async def ask(
        self,
        request: AllocateProducerIdsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AllocateProducerIdsResponse: ...
    @overload
    async def ask(
        self,
        request: BrokerRegistrationRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> BrokerRegistrationResponse: ...
    @overload
    async def ask(
        self,
        request: BrokerHeartbeatRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> BrokerHeartbeatResponse: ...
    @overload
    async def ask(
        self,
        request: UnregisterBrokerRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> UnregisterBrokerResponse: ...
    @overload
    async def ask(
        self,
        request: ControllerRegistrationRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> ControllerRegistrationResponse: ...
    @overload
    async def ask(
        self,
        request: AlterPartitionRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AlterPartitionResponse: ...
    @overload
    async def ask(
        self,
        request: ElectLeadersRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> ElectLeadersResponse: ...
    @overload
    async def ask(
        self,
        request: AlterPartitionReassignmentsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AlterPartitionReassignmentsResponse: ...
    @overload
    async def ask(
        self,
        request: ListPartitionReassignmentsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> ListPartitionReassignmentsResponse: ...
    @overload
    async def ask(
        self,
        request: UpdateFeaturesRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> UpdateFeaturesResponse: ...
    @overload
    async def ask(
        self,
        request: AssignReplicasToDirsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AssignReplicasToDirsResponse: ...
    @overload
    async def ask(
        self,
        request: AlterUserScramCredentialsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AlterUserScramCredentialsResponse: ...
    @overload
    async def ask(
        self,
        request: CreateAclsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> CreateAclsResponse: ...
    @overload
    async def ask(
        self,
        request: DeleteAclsRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> DeleteAclsResponse: ...
    @overload
    async def ask(
        self,
        request: CreateDelegationTokenRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> CreateDelegationTokenResponse: ...
    @overload
    async def ask(
        self,
        request: RenewDelegationTokenRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> RenewDelegationTokenResponse: ...
    @overload
    async def ask(
        self,
        request: ExpireDelegationTokenRequest,
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> ExpireDelegationTokenResponse: ...
    @overload
    async def ask(
        self, request: FenceBrokers, *, wait_ms_max: int = ..., requester: Requester | None = ...
    ) -> BrokersFenced: ...

    async def forward(
        self,
        request: Message,
        reply_type: type[AnyReply],
        *,
        wait_ms_max: int = ...,
        requester: Requester | None = ...,
    ) -> AnyReply:
        """The active controller's reply to a request that decides nothing, but that only it can
        answer. RequestError as from `ask`.
        """
