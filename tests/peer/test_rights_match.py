"""A generated matrix: every API under every right alone, and under all rights but one, is answered
with the error codes of Apache Kafka's StandardAuthorizer.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.network.api_registry import SERVED
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.words import AclOperation as O
from penstock.security.acl.words import ResourceType
from penstock.wire.api import ApiKey
from rig.apache_kafka.broker import ApacheKafka
from rig.held_port import HeldPort
from rig.rights_matrix import CLOSED, Guarded, Right, Subject, entries, requests_about
from rig.running_node import RunningNode
from rig.sasl import plain_users

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
RIGHTS: list[Right] = [
    *((operation, TOPIC) for operation in (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER)),
    *((operation, TOPIC) for operation in (O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, GROUP) for operation in (O.READ, O.DELETE, O.DESCRIBE)),
    *((operation, GROUP) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, TRANSACTION) for operation in (O.WRITE, O.DESCRIBE, O.TWO_PHASE_COMMIT)),
    *((operation, CLUSTER) for operation in (O.CREATE, O.ALTER, O.DESCRIBE, O.CLUSTER_ACTION)),
    *((operation, CLUSTER) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    (O.IDEMPOTENT_WRITE, CLUSTER),
]
# What is left out, and why.
EXEMPT = {
    ApiKey.SASL_HANDSHAKE: "on a connection that is logged in it begins another log-in",
    ApiKey.SASL_AUTHENTICATE: "on a connection that is logged in it begins another log-in",
    ApiKey.CREATE_DELEGATION_TOKEN: "a token belongs to a user: no table of rights decides alone",
    ApiKey.RENEW_DELEGATION_TOKEN: "a token belongs to a user: no table of rights decides alone",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "a token belongs to a user: no table of rights decides alone",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "a token belongs to a user: no table of rights decides alone",
}
# With the right they would take the only node out of its own cluster.
ONLY_WITHOUT_ALTER = {ApiKey.UNREGISTER_BROKER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.ADD_RAFT_VOTER}
GUARD = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    # Nodes ask each other without a log-in, at another listener.
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    settings = {
        **GUARD,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "penstock.metrics.address": "127.0.0.1:0",  # without it clients can push no metrics
    }
    node = RunningNode(tmp_path_factory.mktemp("node"), settings)
    node.start()
    guarded = Guarded(str(node.node.addresses_by_listener["SASL_PLAINTEXT"]))
    yield guarded
    guarded.close()
    node.stop()


@pytest.fixture(scope="module")
def theirs(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    clients, nodes, controller = HeldPort(), HeldPort(), HeldPort()
    of_brokers = f"SASL_PLAINTEXT://{clients.address},PLAINTEXT://{nodes.address}"
    settings = {
        **GUARD,
        "unstable.api.versions.enable": "true",  # InitProducerId 6, which we serve
        "listeners": f"{of_brokers},CONTROLLER://{controller.address}",
        "advertised.listeners": of_brokers,
        "controller.quorum.voters": f"1@{controller.address}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
    }
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path_factory.mktemp("kafka"), settings=settings)
    peer.start()
    guarded = Guarded(clients.address)
    yield guarded
    guarded.close()
    peer.stop()


def answers(guarded: Guarded, subject: Subject, rights: list[Right]) -> dict[str, list[str]]:
    left_out = set(EXEMPT)
    if (O.ALTER, CLUSTER) in rights:
        left_out |= ONLY_WITHOUT_ALTER
    if subject.topic_id is not None and (O.DELETE, TOPIC) in rights:
        left_out.add(ApiKey.DELETE_TOPICS)
    return {
        name: guarded.ask(request, version)
        for api in SERVED
        if api.key not in left_out
        for name, request, version in requests_about(subject, api)
    }


def states() -> Iterator[tuple[str, list[Right], str | None]]:
    yield "no right", [], None
    yield "every right", RIGHTS, None
    yield "rights on others", [right for right in RIGHTS if right[1] is not CLUSTER], "other"
    for right in RIGHTS:
        label = f"{right[0].name} on {right[1].name}"
        yield f"only {label}", [right], None
        yield f"all but {label}", [one for one in RIGHTS if one != right], None


STATES = {label: (rights, other) for label, rights, other in states()}


@pytest.fixture(scope="module")
def existing(ours: Guarded, theirs: Guarded) -> tuple[Subject, Subject]:
    return theirs.create_topic("existing"), ours.create_topic("existing")


def compare(sides: list[tuple[Guarded, Subject]], label: str) -> None:
    rights, other = STATES[label]
    found = []
    for guarded, subject in sides:
        guarded.grant_only(entries(rights, name=other or subject.name))
        found.append(answers(guarded, subject, rights))
    kafka, penstock = found
    assert kafka.keys() == penstock.keys()
    different = {
        asked: (kafka[asked], penstock[asked]) for asked in kafka if kafka[asked] != penstock[asked]
    }
    assert different == {}
    assert [CLOSED] not in kafka.values()


@pytest.mark.parametrize("label", STATES)
def test_rights_on_what_does_not_exist_are_kafkas(
    ours: Guarded, theirs: Guarded, label: str
) -> None:
    missing = Subject(name="missing")
    compare([(theirs, missing), (ours, missing)], label)


@pytest.mark.parametrize("label", STATES)
def test_rights_on_a_topic_by_name_and_by_id_are_kafkas(
    ours: Guarded, theirs: Guarded, existing: tuple[Subject, Subject], label: str
) -> None:
    compare(list(zip((theirs, ours), existing, strict=True)), label)
