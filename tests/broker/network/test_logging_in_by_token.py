"""Clients come in by delegation tokens, as the owners of them, and have the owners' rights."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.messages import creation_of
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.authorised_node import allow
from rig.dialogue import Dialogue
from rig.running_node import RunningNode
from rig.tokens import (
    create,
    describe,
    expire,
    log_in_by_token,
    logged_in,
    renew,
    settings_with_tokens,
)

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Place:
    """A node with an authorizer, and alice's conversation with it."""

    def __init__(self, node: RunningNode) -> None:
        self.address = str(node.node.addresses_by_listener["SASL_PLAINTEXT"])
        self.alice = logged_in(self.address, "alice")

    def enter(self, token_id: str, mac: bytes, mechanism: str = MECHANISMS[0]) -> Dialogue | None:
        return log_in_by_token(self.address, token_id, mac, mechanism)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = settings_with_tokens(
        authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"
    )
    node = RunningNode(tmp_path, settings)
    node.start()
    place = Place(node)
    yield place
    place.alice.close()
    node.stop()


def create_topic(talk: Dialogue, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [result] = talk.exchange(CreateTopicsRequest(topics=[topic]), version=7).topics
    code: int = result.error_code
    return code


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_gives_the_rights_of_its_owner(place: Place, mechanism: str) -> None:
    made = create(place.alice)
    talk = place.enter(made.token_id, made.hmac, mechanism)
    assert talk is not None
    assert create_topic(talk, "orders") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    admin = logged_in(place.address, "admin")
    right = creation_of(allow("alice", AclOperation.CREATE, ResourceType.TOPIC, "orders"))
    admin.exchange(CreateAclsRequest(creations=[right]), version=3)
    assert create_topic(talk, "orders") == ErrorCode.NONE
    admin.close()
    talk.close()


def test_a_client_with_a_token_may_not_ask_for_tokens(place: Place) -> None:
    made = create(place.alice)
    talk = place.enter(made.token_id, made.hmac)
    assert talk is not None
    codes = {
        create(talk).error_code,
        create(talk, owner="bob").error_code,
        renew(talk, made.hmac),
        expire(talk, made.hmac),
        describe(talk).error_code,
    }
    assert codes == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    talk.close()


def test_a_token_that_was_expired_lets_nobody_in(place: Place) -> None:
    made, other = create(place.alice), create(place.alice)
    for ended in (made, create(place.alice, lifetime_ms=1)):
        if ended is made:
            assert expire(place.alice, made.hmac) == ErrorCode.NONE
        while (talk := place.enter(ended.token_id, ended.hmac)) is not None:
            talk.close()  # until its millisecond is over
    assert place.enter(made.token_id, other.hmac) is None
    assert place.enter(other.token_id, made.hmac) is None
    assert place.enter("alice", other.hmac) is None
    still = place.enter(other.token_id, other.hmac)
    assert still is not None
    still.close()


def test_a_session_ends_with_its_token(place: Place) -> None:
    talk: Dialogue | None = None
    while talk is None:  # until one is entered before its token expires
        made = create(place.alice, lifetime_ms=500)
        talk = place.enter(made.token_id, made.hmac)
    with pytest.raises(ConnectionError):
        while True:
            create_topic(talk, "orders")
    talk.close()


def test_owners_who_are_no_token_are_told_nothing_more(place: Place) -> None:
    talk = Dialogue(place.address, "unused")
    talk.exchange(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), version=1)
    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=nonce,tokenauth=true")
    reply = talk.exchange(first, version=2)
    assert reply.error_code == ErrorCode.NONE  # a salt, as for any user
    talk.close()


def test_a_node_with_another_secret_lets_no_token_in(tmp_path: Path) -> None:
    for secret, is_let_in in (("one", True), ("other", False), ("", False), ("one", True)):
        settings = settings_with_tokens(delegation_token_secret_key=secret)
        node = RunningNode(tmp_path, settings)
        node.start()
        place = Place(node)
        if not (tmp_path / "made").exists():
            made = create(place.alice)
            (tmp_path / "made").touch()
        talk = place.enter(made.token_id, made.hmac)
        assert (talk is not None) == is_let_in
        if talk is not None:
            talk.close()
        place.alice.close()
        node.stop()
