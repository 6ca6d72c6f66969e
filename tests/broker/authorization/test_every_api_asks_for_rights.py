"""A generated matrix over every API that brokers serve: without a right, with it, with a wrong one.

The rights are written here a second time, from Apache Kafka's documentation of the operations and
resources of its protocols, so that a slip in the table of the product shows.
"""

from collections.abc import Iterator

import pytest

from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.authorization.table import RULES, RULES_OF_CONTROLLERS
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.security.acl.words import CLUSTER_NAME, AclOperation, ResourceType
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.requests_of_apis import full_request

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
NAME = "name"  # of everything that the generated requests name
O = AclOperation  # noqa: E741
# Each right of a request, and who is told that it is missing.
NEEDS: dict[ApiKey, list[tuple[AclOperation, ResourceType]]] = {
    ApiKey.PRODUCE: [(O.WRITE, TOPIC), (O.WRITE, TRANSACTION)],
    ApiKey.FETCH: [(O.CLUSTER_ACTION, CLUSTER)],  # the generated one is a follower's
    ApiKey.LIST_OFFSETS: [(O.DESCRIBE, TOPIC)],
    ApiKey.METADATA: [(O.DESCRIBE, TOPIC), (O.CREATE, TOPIC)],
    ApiKey.OFFSET_COMMIT: [(O.READ, GROUP), (O.READ, TOPIC)],
    ApiKey.OFFSET_FETCH: [(O.DESCRIBE, GROUP), (O.DESCRIBE, TOPIC)],
    ApiKey.FIND_COORDINATOR: [(O.DESCRIBE, TRANSACTION)],  # the generated one is of type 1
    ApiKey.JOIN_GROUP: [(O.READ, GROUP)],
    ApiKey.HEARTBEAT: [(O.READ, GROUP)],
    ApiKey.LEAVE_GROUP: [(O.READ, GROUP)],
    ApiKey.SYNC_GROUP: [(O.READ, GROUP)],
    ApiKey.DESCRIBE_GROUPS: [(O.DESCRIBE, GROUP)],
    ApiKey.LIST_GROUPS: [],
    ApiKey.API_VERSIONS: [],
    ApiKey.SASL_HANDSHAKE: [],
    ApiKey.SASL_AUTHENTICATE: [],
    ApiKey.CREATE_TOPICS: [(O.CREATE, TOPIC)],
    ApiKey.DELETE_TOPICS: [(O.DELETE, TOPIC)],
    ApiKey.DELETE_RECORDS: [(O.DELETE, TOPIC)],
    ApiKey.INIT_PRODUCER_ID: [(O.WRITE, TRANSACTION), (O.TWO_PHASE_COMMIT, TRANSACTION)],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [(O.DESCRIBE, TOPIC)],
    ApiKey.ADD_PARTITIONS_TO_TXN: [(O.CLUSTER_ACTION, CLUSTER)],  # its latest version is of nodes
    ApiKey.ADD_OFFSETS_TO_TXN: [(O.WRITE, TRANSACTION), (O.READ, GROUP)],
    ApiKey.END_TXN: [(O.WRITE, TRANSACTION)],
    ApiKey.WRITE_TXN_MARKERS: [(O.CLUSTER_ACTION, CLUSTER)],
    ApiKey.TXN_OFFSET_COMMIT: [(O.WRITE, TRANSACTION), (O.READ, GROUP), (O.READ, TOPIC)],
    ApiKey.DESCRIBE_ACLS: [(O.DESCRIBE, CLUSTER)],
    ApiKey.CREATE_ACLS: [(O.ALTER, CLUSTER)],
    ApiKey.DELETE_ACLS: [(O.ALTER, CLUSTER)],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [(O.DESCRIBE, CLUSTER)],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [(O.ALTER, CLUSTER)],
    # Of clients that logged in: see test_rights_on_tokens.py.
    ApiKey.CREATE_DELEGATION_TOKEN: [],
    ApiKey.RENEW_DELEGATION_TOKEN: [],
    ApiKey.EXPIRE_DELEGATION_TOKEN: [],
    ApiKey.DESCRIBE_DELEGATION_TOKEN: [],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [(O.DESCRIBE_CONFIGS, CLUSTER)],
    ApiKey.DESCRIBE_CONFIGS: [(O.DESCRIBE_CONFIGS, CLUSTER)],  # of a broker
    ApiKey.ALTER_CONFIGS: [(O.ALTER_CONFIGS, CLUSTER)],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [(O.ALTER_CONFIGS, CLUSTER)],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [(O.ALTER, CLUSTER)],
    ApiKey.DESCRIBE_LOG_DIRS: [(O.DESCRIBE, CLUSTER)],
    ApiKey.CREATE_PARTITIONS: [(O.ALTER, TOPIC)],
    ApiKey.ELECT_LEADERS: [(O.ALTER, CLUSTER)],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [(O.ALTER, CLUSTER)],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [(O.DESCRIBE, CLUSTER)],
    ApiKey.DESCRIBE_CLUSTER: [],
    ApiKey.DELETE_GROUPS: [(O.DELETE, GROUP)],
    ApiKey.OFFSET_DELETE: [(O.DELETE, GROUP), (O.READ, TOPIC)],
    ApiKey.DESCRIBE_PRODUCERS: [(O.READ, TOPIC)],
    ApiKey.DESCRIBE_TRANSACTIONS: [(O.DESCRIBE, TRANSACTION)],
    ApiKey.LIST_TRANSACTIONS: [],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [(O.READ, GROUP), (O.DESCRIBE, TOPIC)],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [(O.DESCRIBE, GROUP)],
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: [],
    ApiKey.PUSH_TELEMETRY: [],
    ApiKey.LIST_CONFIG_RESOURCES: [(O.DESCRIBE_CONFIGS, CLUSTER)],
    ApiKey.DESCRIBE_QUORUM: [(O.DESCRIBE, CLUSTER)],
    ApiKey.UNREGISTER_BROKER: [(O.ALTER, CLUSTER)],
    ApiKey.ADD_RAFT_VOTER: [(O.ALTER, CLUSTER)],
    ApiKey.REMOVE_RAFT_VOTER: [(O.ALTER, CLUSTER)],
    ApiKey.UPDATE_FEATURES: [(O.ALTER, CLUSTER)],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [(O.DESCRIBE, TOPIC)],
}
DENIALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
# With the right, it would take the only node out of its own cluster.
NOT_DONE = {ApiKey.UNREGISTER_BROKER, ApiKey.REMOVE_RAFT_VOTER}
# Topics are named by ids from then on, which no topic has: there is nothing to ask a right for.
BY_NAME_UP_TO = {
    ApiKey.PRODUCE: 12,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}
GUARDED = [api for api in SERVED if NEEDS[api.key]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorisedNode]:
    data = tmp_path_factory.mktemp("data")
    with authorised_node(data, transaction_two_phase_commit_enable="true") as node:
        yield node


def version_of(api: AnyApi) -> int:
    return min(api.versions.max, BY_NAME_UP_TO.get(api.key, api.versions.max))


def request_of(api: AnyApi, version: int | None = None) -> Message:
    request = full_request(api.request, version_of(api) if version is None else version)
    for resource in getattr(request, "resources", ()):
        resource.resource_type = ResourceKind.BROKER
    if api.key == ApiKey.CREATE_ACLS:
        # An entry that cannot be added: it would change what the next test may do.
        request.creations[0].principal = NAME  # type: ignore[attr-defined]
    if api.key == ApiKey.DELETE_ACLS:
        request.filters[0].principal_filter = "User:nobody"  # type: ignore[attr-defined]
    return request


def codes_of(part: object) -> Iterator[int]:
    if isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name.endswith("error_code"):
                yield value
            yield from codes_of(value)
    elif isinstance(part, list):
        for item in part:
            yield from codes_of(item)


def make_group(guarded: AuthorisedNode) -> None:
    """The group that requests name: without one there is nothing to delete offsets of."""
    topic = CreatableTopic(name="committed", num_partitions=1, replication_factor=1)
    guarded.admin.exchange(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), version=7)
    offsets = OffsetCommitRequestTopic(
        name="committed", partitions=[OffsetCommitRequestPartition(committed_offset=1)]
    )
    commit = OffsetCommitRequest(group_id=NAME, generation_id_or_member_epoch=-1, topics=[offsets])
    codes = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    while codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
        find = FindCoordinatorRequest(coordinator_keys=[NAME])
        guarded.admin.exchange(find, version=4)
        codes = set(codes_of(guarded.admin.exchange(commit, version=8)))
    assert codes == {ErrorCode.NONE}


def ask(guarded: AuthorisedNode, api: AnyApi, who: str) -> set[int]:
    if api.key == ApiKey.OFFSET_DELETE:
        make_group(guarded)
    talk = guarded.dialogue(who)
    try:
        return set(codes_of(talk.exchange(request_of(api), version=version_of(api))))
    finally:
        talk.close()


def name_of(resource_type: ResourceType) -> str:
    return CLUSTER_NAME if resource_type == CLUSTER else NAME


def key(api: AnyApi) -> str:
    return api.key.name


def test_every_api_has_a_rule() -> None:
    assert {api.key for api in SERVED} == set(NEEDS)
    assert {api.key for api in SERVED} <= set(RULES)
    assert {api.key for api in SERVED_BY_CONTROLLERS} <= set(RULES_OF_CONTROLLERS)


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_a_principal_without_rights_is_refused(guarded: AuthorisedNode, api: AnyApi) -> None:
    guarded.revoke_all()
    assert ask(guarded, api, "alice") & DENIALS


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_rights_on_another_resource_are_of_no_use(guarded: AuthorisedNode, api: AnyApi) -> None:
    guarded.revoke_all()
    guarded.grant(
        *(
            allow("alice", operation, resource_type, "other")
            for operation, resource_type in NEEDS[api.key]
            if resource_type != CLUSTER
        ),
        allow("bob", AclOperation.ALL, CLUSTER, CLUSTER_NAME),
    )
    assert ask(guarded, api, "alice") & DENIALS


@pytest.mark.parametrize("api", [one for one in GUARDED if one.key not in NOT_DONE], ids=key)
def test_a_principal_with_the_rights_is_served(guarded: AuthorisedNode, api: AnyApi) -> None:
    guarded.revoke_all()
    guarded.grant(
        *(
            allow("alice", operation, resource_type, name_of(resource_type))
            for operation, resource_type in NEEDS[api.key]
        )
    )
    assert not ask(guarded, api, "alice") & DENIALS


@pytest.mark.parametrize(
    ("api", "missing"),
    [
        pytest.param(api, needed, id=f"{api.key.name}-{needed[0].name}-{needed[1].name}")
        for api in GUARDED
        if len(NEEDS[api.key]) > 1
        for needed in NEEDS[api.key]
    ],
)
def test_each_single_right_is_needed(
    guarded: AuthorisedNode, api: AnyApi, missing: tuple[AclOperation, ResourceType]
) -> None:
    guarded.revoke_all()
    left = [need for need in NEEDS[api.key] if need != missing]
    guarded.grant(*(allow("alice", operation, kind, name_of(kind)) for operation, kind in left))
    assert ask(guarded, api, "alice") & DENIALS


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_every_version_is_answered(guarded: AuthorisedNode, api: AnyApi) -> None:
    """A reply has a form of its own in each, in which a refusal must fit too."""
    guarded.revoke_all()
    talk = guarded.dialogue("alice")
    try:
        for version in range(api.versions.min, api.versions.max + 1):
            request = request_of(api, version)
            if api.key == ApiKey.PRODUCE and version < 3:
                continue  # not served any more: the connection is closed
            assert isinstance(talk.exchange(request, version=version), Message)
    finally:
        talk.close()
