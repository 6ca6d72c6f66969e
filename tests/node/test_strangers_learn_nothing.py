"""Whoever has no rights is told the same of what exists as of what does not, by every API of
brokers and of controllers: no topic, group or transactional id can be found out by asking.

Ids of topics are not secret, as in Apache Kafka: for one that no topic has, the code is another one
than for one that has a topic. It is all that differs, and no id is answered with a name.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.request.api_table import AnyApi
from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.words import AclOperation as O
from penstock.security.acl.words import ResourceType
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message
from penstock.wire.messages.metadata import MetadataRequest
from rig.dialogue import plain
from rig.guarded_controller import guarded_controller
from rig.rights_matrix import (
    Guarded,
    Right,
    Subject,
    entries,
    requests_about,
    requests_by_id,
    versions_by_id,
)
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
BY_ID, BY_ID_AT_CONTROLLERS = (
    [api for api in apis if versions_by_id(api)] for apis in (SERVED, SERVED_BY_CONTROLLERS)
)
TELLING_BY_ID = (
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
)
NO_TOPIC = bytes(range(100, 116))  # has this id
OF_TOPICS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
GROUP, TRANSACTIONAL_ID = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
# With the second, requests of groups and in transactions are judged by their topics.
RIGHTS: dict[str, list[Right]] = {
    "none": [],
    "on all but topics": [(O.READ, GROUP), (O.DESCRIBE, GROUP), (O.WRITE, TRANSACTIONAL_ID)],
}
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


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """With a topic of the name that exists; asked at the listener of controllers."""
    with guarded_controller(tmp_path_factory.mktemp("controller")) as asked:
        asked.create_topic(EXISTING)
        yield asked


@pytest.fixture(params=RIGHTS)
def rights(guarded: Guarded, request: pytest.FixtureRequest) -> Iterator[None]:
    guarded.grant_only(entries(RIGHTS[request.param], name=MISSING))
    yield
    guarded.grant_only([])


Requests = Iterable[tuple[str, Message, int]]


def answers(guarded: Guarded, requests: Requests, user: str) -> dict[str, Message | None]:
    """None: the connection was closed."""
    found: dict[str, Message | None] = {}
    for what, request, version in requests:
        talk = guarded.dialogue(user)
        try:
            found[what] = talk.exchange(request, version=version)
        except ConnectionError:
            found[what] = None
        talk.close()
    assert found
    return found


def told(guarded: Guarded, name: str, api: AnyApi, *, user: str = "alice") -> dict[str, str]:
    """What a stranger is answered, but for the name that it asked about."""
    replies = answers(guarded, requests_about(Subject(name=name), api), user)
    return {
        what: CLOSED if reply is None else repr(plain(reply)).replace(name, "NAME")
        for what, reply in replies.items()
    }


def told_by_id(
    guarded: Guarded, topic_id: bytes, api: AnyApi, *, user: str = "alice"
) -> dict[str, Message | None]:
    return answers(guarded, requests_by_id(Subject(name=MISSING, topic_id=topic_id), api), user)


def but_for_codes_of_topics(reply: Any) -> Any:
    """With one word for both codes in place of either."""
    match reply:
        case dict():
            return {
                name: "refused"
                if name.endswith("error_code") and value in OF_TOPICS
                else but_for_codes_of_topics(value)
                for name, value in reply.items()
            }
        case list():
            return [but_for_codes_of_topics(one) for one in reply]
        case _:
            return reply


def key(api: AnyApi) -> str:
    return api.key.name


@pytest.mark.parametrize("api", [api for api in SERVED if api.key not in LOG_INS], ids=key)
def test_what_exists_is_answered_as_what_does_not(guarded: Guarded, api: AnyApi) -> None:
    answered_alike(guarded, api)


@pytest.mark.parametrize(
    "api", [api for api in SERVED_BY_CONTROLLERS if api.key not in LOG_INS], ids=key
)
def test_controllers_answer_of_what_exists_as_of_what_does_not(
    controller: Guarded, api: AnyApi
) -> None:
    answered_alike(controller, api)


def answered_alike(guarded: Guarded, api: AnyApi) -> None:
    missing = told(guarded, MISSING, api)
    assert told(guarded, EXISTING, api) == missing
    assert not any(EXISTING in answer for answer in missing.values())


@pytest.mark.usefixtures("rights")
@pytest.mark.parametrize("api", BY_ID, ids=key)
def test_an_id_tells_nothing_of_its_topic(guarded: Guarded, api: AnyApi) -> None:
    nothing_but_codes_differs_by_id(guarded, api)


@pytest.mark.parametrize("api", BY_ID_AT_CONTROLLERS, ids=key)
def test_an_id_tells_nothing_of_its_topic_at_a_controller(controller: Guarded, api: AnyApi) -> None:
    nothing_but_codes_differs_by_id(controller, api)


def nothing_but_codes_differs_by_id(guarded: Guarded, api: AnyApi) -> None:
    ids = (guarded.topic_ids[EXISTING], NO_TOPIC)
    existing, missing = (told_by_id(guarded, one, api) for one in ids)
    for what, reply in existing.items():
        assert EXISTING not in repr(reply)
        assert but_for_codes_of_topics(plain(reply)) == but_for_codes_of_topics(
            plain(missing[what])
        )


@pytest.mark.parametrize("api", [api for api in SERVED if api.key in TELLING], ids=key)
def test_whoever_has_the_rights_is_told_the_difference(guarded: Guarded, api: AnyApi) -> None:
    missing = told(guarded, MISSING, api, user="admin")
    assert told(guarded, EXISTING, api, user="admin") != missing


@pytest.mark.parametrize("api", [api for api in SERVED if api.key in TELLING_BY_ID], ids=key)
def test_whoever_has_the_rights_is_told_of_the_topic_of_an_id(
    guarded: Guarded, api: AnyApi
) -> None:
    ids = (guarded.topic_ids[EXISTING], NO_TOPIC)
    existing, missing = (told_by_id(guarded, one, api, user="admin") for one in ids)
    assert any(
        but_for_codes_of_topics(plain(existing[what])) != but_for_codes_of_topics(plain(reply))
        for what, reply in missing.items()
    )


def test_a_stranger_is_told_of_no_topic(guarded: Guarded) -> None:
    stranger = guarded.dialogue("alice")
    assert stranger.exchange(MetadataRequest(topics=None), version=12).topics == []
    stranger.close()
