"""The controller's table of requests: start here. Its state is in `state`.

Requests and replies are those of the wire, except those that the controller makes of itself.
"""

from typing import assert_never

from penstock.machine.decision import Decision
from penstock.metadata.controller.acls import create_acls, delete_acls
from penstock.metadata.controller.alter_partition import alter_partition
from penstock.metadata.controller.brokers import register_broker, unregister_broker
from penstock.metadata.controller.controllers import register_controller
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.delegation_tokens import (
    ExpiredTokensRemoved,
    RemoveExpiredTokens,
    create_token,
    expire_token,
    remove_expired_tokens,
    renew_token,
)
from penstock.metadata.controller.elections import (
    BalanceLeaders,
    LeadersBalanced,
    balance_leaders,
    elect_leaders,
)
from penstock.metadata.controller.features import update_features
from penstock.metadata.controller.fencing import BrokersFenced, FenceBrokers, fence_brokers
from penstock.metadata.controller.heartbeat import heartbeat
from penstock.metadata.controller.partitions import create_partitions
from penstock.metadata.controller.producer_ids import allocate_producer_ids
from penstock.metadata.controller.reassignments import alter_reassignments, list_reassignments
from penstock.metadata.controller.replica_directories import assign_replicas
from penstock.metadata.controller.scram_credentials import alter_scram_credentials
from penstock.metadata.controller.settings import alter_configs, incremental_alter_configs
from penstock.metadata.controller.topics import create_topics, delete_topics
from penstock.metadata.records import MetadataRecord
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

ControllerRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | IncrementalAlterConfigsRequest
    | AlterConfigsRequest
    | AllocateProducerIdsRequest
    | BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | UnregisterBrokerRequest
    | UpdateFeaturesRequest
    | ControllerRegistrationRequest
    | AlterPartitionRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | AssignReplicasToDirsRequest
    | AlterUserScramCredentialsRequest
    | CreateAclsRequest
    | DeleteAclsRequest
    | CreateDelegationTokenRequest
    | RenewDelegationTokenRequest
    | ExpireDelegationTokenRequest
    | FenceBrokers
    | BalanceLeaders
    | RemoveExpiredTokens
)
ControllerReply = (
    CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
    | IncrementalAlterConfigsResponse
    | AlterConfigsResponse
    | AllocateProducerIdsResponse
    | BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | UnregisterBrokerResponse
    | UpdateFeaturesResponse
    | ControllerRegistrationResponse
    | AlterPartitionResponse
    | ElectLeadersResponse
    | AlterPartitionReassignmentsResponse
    | ListPartitionReassignmentsResponse
    | AssignReplicasToDirsResponse
    | AlterUserScramCredentialsResponse
    | CreateAclsResponse
    | DeleteAclsResponse
    | CreateDelegationTokenResponse
    | RenewDelegationTokenResponse
    | ExpireDelegationTokenResponse
    | BrokersFenced
    | LeadersBalanced
    | ExpiredTokensRemoved
)


def decide(
    context: DecisionContext, request: ControllerRequest
) -> Decision[MetadataRecord, ControllerReply]:
    """The controller's decision about a request; RequestError when it refuses the whole request:
    the `error_code` of a reply is never set here.
    """
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
        case AllocateProducerIdsRequest():
            return allocate_producer_ids(context, request)
        case BrokerRegistrationRequest():
            return register_broker(context, request)
        case BrokerHeartbeatRequest():
            return heartbeat(context, request)
        case UnregisterBrokerRequest():
            return unregister_broker(context, request)
        case UpdateFeaturesRequest():
            return update_features(context, request)
        case ControllerRegistrationRequest():
            return register_controller(context, request)
        case AlterPartitionRequest():
            return alter_partition(context, request)
        case ElectLeadersRequest():
            return elect_leaders(context, request)
        case AlterPartitionReassignmentsRequest():
            return alter_reassignments(context, request)
        case ListPartitionReassignmentsRequest():
            return list_reassignments(context, request)
        case AssignReplicasToDirsRequest():
            return assign_replicas(context, request)
        case AlterUserScramCredentialsRequest():
            return alter_scram_credentials(context, request)
        case CreateAclsRequest():
            return create_acls(context, request)
        case DeleteAclsRequest():
            return delete_acls(context, request)
        case CreateDelegationTokenRequest():
            return create_token(context, request)
        case RenewDelegationTokenRequest():
            return renew_token(context, request)
        case ExpireDelegationTokenRequest():
            return expire_token(context, request)
        case FenceBrokers():
            return fence_brokers(context, request)
        case BalanceLeaders():
            return balance_leaders(context, request)
        case RemoveExpiredTokens():
            return remove_expired_tokens(context)
        case _:
            assert_never(request)
