"""A generated matrix over every API that controllers serve, at a listener where clients log in:
without a right, with it, with every other one.

The rights are written here a second time, as Apache Kafka's controllers ask for them, so that a
slip in the table of the product shows.
"""

from collections.abc import Iterator

import pytest

from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.request.api_table import AnyApi
from penstock.broker.request.authorized_operations import NOT_ASKED_FOR
from penstock.model.error import ErrorCode
from penstock.security.acl.words import AclOperation as O
from penstock.security.acl.words import ResourceType
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_cluster import CONTROLLERS, DescribeClusterRequest
from rig.guarded_controller import guarded_controller
from rig.rights_matrix import CLOSED, SERVED, Guarded, Right, Subject, entries, requests_about

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
MISSING = Subject(name="missing")
OF_NODES: list[Right] = [(O.CLUSTER_ACTION, CLUSTER)]
OF_ADMINISTRATORS: list[Right] = [(O.ALTER, CLUSTER)]
OF_OBSERVERS: list[Right] = [(O.DESCRIBE, CLUSTER)]
TO_ALTER_SETTINGS: list[Right] = [(O.ALTER_CONFIGS, one) for one in (CLUSTER, TOPIC, GROUP)]
NEEDS: dict[ApiKey, list[Right]] = {
    # Of other controllers and of brokers
    ApiKey.FETCH: OF_NODES,
    ApiKey.FETCH_SNAPSHOT: OF_NODES,
    ApiKey.VOTE: OF_NODES,
    ApiKey.BEGIN_QUORUM_EPOCH: OF_NODES,
    ApiKey.END_QUORUM_EPOCH: OF_NODES,
    ApiKey.UPDATE_RAFT_VOTER: OF_NODES,
    ApiKey.CONTROLLER_REGISTRATION: OF_NODES,
    ApiKey.BROKER_REGISTRATION: OF_NODES,
    ApiKey.BROKER_HEARTBEAT: OF_NODES,
    ApiKey.ALTER_PARTITION: OF_NODES,
    ApiKey.ALLOCATE_PRODUCER_IDS: OF_NODES,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: OF_NODES,
    ApiKey.ENVELOPE: OF_NODES,
    # Of administrators
    ApiKey.ADD_RAFT_VOTER: OF_ADMINISTRATORS,
    ApiKey.REMOVE_RAFT_VOTER: OF_ADMINISTRATORS,
    ApiKey.UNREGISTER_BROKER: OF_ADMINISTRATORS,
    ApiKey.UPDATE_FEATURES: OF_ADMINISTRATORS,
    ApiKey.DESCRIBE_CLUSTER: OF_ADMINISTRATORS,
    ApiKey.CREATE_ACLS: OF_ADMINISTRATORS,
    ApiKey.DELETE_ACLS: OF_ADMINISTRATORS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: OF_ADMINISTRATORS,
    ApiKey.ELECT_LEADERS: OF_ADMINISTRATORS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: OF_ADMINISTRATORS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: OF_OBSERVERS,
    ApiKey.DESCRIBE_QUORUM: OF_OBSERVERS,
    ApiKey.DESCRIBE_ACLS: OF_OBSERVERS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: OF_OBSERVERS,
    ApiKey.CREATE_TOPICS: [(O.CREATE, TOPIC)],
    ApiKey.DELETE_TOPICS: [(O.DELETE, TOPIC)],
    ApiKey.CREATE_PARTITIONS: [(O.ALTER, TOPIC)],
    ApiKey.DESCRIBE_CONFIGS: [(O.DESCRIBE_CONFIGS, one) for one in (CLUSTER, TOPIC, GROUP)],
    ApiKey.ALTER_CONFIGS: TO_ALTER_SETTINGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: TO_ALTER_SETTINGS,
    # Of everyone
    ApiKey.API_VERSIONS: [],
    ApiKey.SASL_HANDSHAKE: [],
    ApiKey.SASL_AUTHENTICATE: [],
    # Of everyone who logged in: see test_rights_on_tokens.py.
    ApiKey.CREATE_DELEGATION_TOKEN: [],
    ApiKey.RENEW_DELEGATION_TOKEN: [],
    ApiKey.EXPIRE_DELEGATION_TOKEN: [],
    ApiKey.DESCRIBE_DELEGATION_TOKEN: [],
}
GUARDED = [api for api in SERVED_BY_CONTROLLERS if NEEDS[api.key]]
EVERY_RIGHT: list[Right] = [
    *((operation, CLUSTER) for operation in (O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE)),
    *((operation, CLUSTER) for operation in (O.CLUSTER_ACTION, O.IDEMPOTENT_WRITE)),
    *((operation, CLUSTER) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, TOPIC) for operation in (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER)),
    *((operation, TOPIC) for operation in (O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, GROUP) for operation in (O.READ, O.DELETE, O.DESCRIBE)),
    *((operation, GROUP) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
]
# What does as well as the right that is asked for: other operations imply it, and those on the
# cluster stand for those on each topic. A topic that is missing may be deleted by whoever sees it.
IMPLYING = {
    O.DESCRIBE: {O.READ, O.WRITE, O.DELETE, O.ALTER},
    O.DESCRIBE_CONFIGS: {O.ALTER_CONFIGS},
}
AS_GOOD: dict[ApiKey, set[Right]] = {
    ApiKey.CREATE_TOPICS: {(O.CREATE, CLUSTER)},
    ApiKey.DELETE_TOPICS: {
        (O.DELETE, CLUSTER),
        *((one, TOPIC) for one in (O.DESCRIBE, *IMPLYING[O.DESCRIBE])),
    },
}


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_controller(tmp_path_factory.mktemp("node")) as guarded:
        yield guarded


def answers(controller: Guarded, api: AnyApi) -> dict[str, list[str]]:
    found = {
        name: controller.ask(request, version)
        for name, request, version in requests_about(MISSING, api)
    }
    assert found and [CLOSED] not in found.values()
    return found


def refused(controller: Guarded, api: AnyApi) -> bool:
    """Each request of this API, for a want of rights."""
    return [SERVED] not in answers(controller, api).values()


def other_rights(key: ApiKey) -> list[Right]:
    """All that are of no use for this API."""
    useful = set(NEEDS[key]) | AS_GOOD.get(key, set())
    for operation, resource_type in NEEDS[key]:
        useful |= {(one, resource_type) for one in IMPLYING.get(operation, ())}
    return [right for right in EVERY_RIGHT if right not in useful]


def key(api: AnyApi) -> str:
    return api.key.name


def test_every_api_of_controllers_has_a_row() -> None:
    assert {api.key for api in SERVED_BY_CONTROLLERS} == set(NEEDS)


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_a_principal_without_rights_is_refused(controller: Guarded, api: AnyApi) -> None:
    controller.grant_only([])
    assert refused(controller, api)


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_every_other_right_is_of_no_use(controller: Guarded, api: AnyApi) -> None:
    elsewhere = [right for right in NEEDS[api.key] if right[1] is not CLUSTER]
    controller.grant_only(
        [*entries(other_rights(api.key), name=MISSING.name), *entries(elsewhere, name="other")]
    )
    assert refused(controller, api)


@pytest.mark.parametrize("api", GUARDED, ids=key)
def test_a_principal_with_the_right_is_served(controller: Guarded, api: AnyApi) -> None:
    controller.grant_only(entries(NEEDS[api.key], name=MISSING.name))
    found = answers(controller, api)
    assert set(map(tuple, found.values())) == {(SERVED,)}, found


@pytest.mark.parametrize(
    ("others", "seen"),
    [([], {O.ALTER, O.DESCRIBE}), ([O.CREATE], {O.ALTER, O.DESCRIBE, O.CREATE})],
    ids=["alter", "alter and create"],
)
def test_the_operations_on_the_cluster_are_those_of_the_client(
    controller: Guarded, others: list[O], seen: set[O]
) -> None:
    controller.grant_only(entries([*OF_ADMINISTRATORS, *((one, CLUSTER) for one in others)]))
    talk = controller.dialogue("alice")
    try:
        asked = DescribeClusterRequest(
            endpoint_type=CONTROLLERS, include_cluster_authorized_operations=True
        )
        reply = talk.exchange(asked, version=1)
        assert reply.error_code == ErrorCode.NONE
        assert reply.cluster_authorized_operations == sum(1 << operation for operation in seen)
        asked.include_cluster_authorized_operations = False
        assert talk.exchange(asked, version=1).cluster_authorized_operations == NOT_ASKED_FOR
    finally:
        talk.close()
