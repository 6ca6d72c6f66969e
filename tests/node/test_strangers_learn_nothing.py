"""Whoever has no rights is told the same of what exists as of what does not, by every API: no
topic, group or transactional id can be found out by asking.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.broker.network.api_registry import SERVED
from penstock.broker.request.api_table import AnyApi
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.wire.api import ApiKey
from penstock.wire.messages.metadata import MetadataRequest
from rig.dialogue import plain
from rig.rights_matrix import Guarded, Subject, requests_about
from rig.running_node import RunningNode
from rig.sasl import plain_users

EXISTING, MISSING = "existing-name", "missing--name"
LOG_INS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)  # they begin another one
TELLING = (
    ApiKey.METADATA,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DESCRIBE_TRANSACTIONS,
)
CLOSED = "closed"
WAIT_SECONDS = 60
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """With a topic, a group and an open transaction of the name that exists."""
    folder: Path = tmp_path_factory.mktemp("node")
    node = RunningNode(folder, SETTINGS)
    node.start()
    addresses = node.node.addresses_by_listener
    asked = Guarded(str(addresses["SASL_PLAINTEXT"]))
    asked.create_topic(EXISTING)
    client: dict[str, str | int | float | bool] = {"bootstrap.servers": str(addresses["PLAINTEXT"])}
    producer = Producer({**client, "transactional.id": EXISTING})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(EXISTING, b"v", partition=0)
    producer.flush(WAIT_SECONDS)
    consumer = Consumer({**client, "group.id": EXISTING})
    places = [TopicPartition(EXISTING, index, 0) for index in range(2)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    yield asked
    asked.close()
    producer.abort_transaction(WAIT_SECONDS)
    node.stop()


def told(guarded: Guarded, name: str, api: AnyApi, *, user: str = "alice") -> dict[str, str]:
    """What a stranger is answered, but for the name that it asked about."""
    found = {}
    for what, request, version in requests_about(Subject(name=name), api):
        talk = guarded.dialogue(user)
        try:
            reply = talk.exchange(request, version=version)
            found[what] = repr(plain(reply)).replace(name, "NAME")
        except ConnectionError:
            found[what] = CLOSED
        talk.close()
    return found


@pytest.mark.parametrize(
    "api", [api for api in SERVED if api.key not in LOG_INS], ids=lambda api: api.key.name
)
def test_what_exists_is_answered_as_what_does_not(guarded: Guarded, api: AnyApi) -> None:
    missing = told(guarded, MISSING, api)
    assert told(guarded, EXISTING, api) == missing
    assert not any(EXISTING in answer for answer in missing.values())


@pytest.mark.parametrize(
    "api",
    [api for api in SERVED if api.key in TELLING],
    ids=lambda api: api.key.name,
)
def test_whoever_has_the_rights_is_told_the_difference(guarded: Guarded, api: AnyApi) -> None:
    missing = told(guarded, MISSING, api, user="admin")
    assert told(guarded, EXISTING, api, user="admin") != missing


def test_a_stranger_is_told_of_no_topic(guarded: Guarded) -> None:
    stranger = guarded.dialogue("alice")
    assert stranger.exchange(MetadataRequest(topics=None), version=12).topics == []
    stranger.close()
