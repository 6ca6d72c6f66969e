"""A generated matrix at the listener of controllers: every API that both serve there, under every
right alone and under all rights but one, is answered with the error codes of Apache Kafka.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.security.acl.words import AclOperation as O
from penstock.security.acl.words import ResourceType
from penstock.wire.api import ApiKey
from rig.apache_kafka.broker import ApacheKafka
from rig.guarded_controller import guarded_controller, guarded_settings
from rig.held_port import HeldPort
from rig.rights_matrix import CLOSED, Guarded, Right, Subject, entries, requests_about

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
RIGHTS: list[Right] = [
    *((operation, TOPIC) for operation in (O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE)),
    *((operation, TOPIC) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, GROUP) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    *((operation, CLUSTER) for operation in (O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE)),
    *((operation, CLUSTER) for operation in (O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS)),
    (O.CLUSTER_ACTION, CLUSTER),
]
# What is left out, and why.
A_LOG_IN = "on a connection that is logged in it begins another log-in"
A_TOKEN = "a token belongs to a user: no table of rights decides alone"
EXEMPT = {
    ApiKey.SASL_HANDSHAKE: A_LOG_IN,
    ApiKey.SASL_AUTHENTICATE: A_LOG_IN,
    ApiKey.CREATE_DELEGATION_TOKEN: A_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN: A_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN: A_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "Apache Kafka's controllers do not serve it",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "Apache Kafka's controllers do not serve it",
}
MISSING = Subject(name="missing")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_controller(tmp_path_factory.mktemp("node")) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def theirs(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    clients, controllers = HeldPort(), HeldPort()
    settings = guarded_settings(clients=clients.address, controllers=controllers.address)
    peer = ApacheKafka(jars=kafka_jars, folder=tmp_path_factory.mktemp("kafka"), settings=settings)
    peer.start()
    guarded = Guarded(clients.address, controller=controllers.address)
    yield guarded
    guarded.close()
    peer.stop()


def states() -> Iterator[tuple[str, list[Right], str]]:
    yield "no right", [], MISSING.name
    yield "every right", RIGHTS, MISSING.name
    yield "rights on others", [right for right in RIGHTS if right[1] is not CLUSTER], "other"
    for right in RIGHTS:
        label = f"{right[0].name} on {right[1].name}"
        yield f"only {label}", [right], MISSING.name
        yield f"all but {label}", [one for one in RIGHTS if one != right], MISSING.name


STATES = {label: (rights, name) for label, rights, name in states()}


def answers(guarded: Guarded, label: str) -> dict[str, list[str]]:
    rights, name = STATES[label]
    guarded.grant_only(entries(rights, name=name))
    return {
        name: guarded.ask(request, version)
        for api in SERVED_BY_CONTROLLERS
        if api.key not in EXEMPT
        for name, request, version in requests_about(MISSING, api)
    }


@pytest.mark.parametrize("label", STATES)
def test_rights_at_controllers_are_kafkas(ours: Guarded, theirs: Guarded, label: str) -> None:
    kafka, penstock = answers(theirs, label), answers(ours, label)
    different = {
        asked: (kafka[asked], penstock[asked]) for asked in kafka if kafka[asked] != penstock[asked]
    }
    assert different == {}
    assert [CLOSED] not in kafka.values()
