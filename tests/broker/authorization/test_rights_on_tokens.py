"""Who may create, see, renew and expire delegation tokens on a node with an authorizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.entry import Acl
from penstock.security.acl.messages import creation_of
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.security.delegation_token import token_hmac
from penstock.wire.messages.create_acls import CreateAclsRequest
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from rig.authorised_node import allow
from rig.dialogue import Dialogue
from rig.running_node import RunningNode
from rig.tokens import (
    NAMES,
    create,
    describe,
    expire,
    logged_in,
    renew,
    seen,
    settings_with_tokens,
)

Talks = dict[str, Dialogue]


@pytest.fixture
def talks(tmp_path: Path) -> Iterator[Talks]:
    """A conversation as each of the users; `User:admin` may do everything."""
    node = RunningNode(
        tmp_path,
        settings_with_tokens(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"),
    )
    node.start()
    address = str(node.node.addresses_by_listener["SASL_PLAINTEXT"])
    by_name = {name: logged_in(address, name) for name in NAMES}
    yield by_name
    for talk in by_name.values():
        talk.close()
    node.stop()


def grant(talks: Talks, acl: Acl) -> None:
    reply = talks["admin"].exchange(CreateAclsRequest(creations=[creation_of(acl)]), version=3)
    assert [result.error_code for result in reply.results] == [ErrorCode.NONE]


def test_everyone_may_have_tokens_of_its_own(talks: Talks) -> None:
    own = create(talks["alice"])
    assert (own.error_code, own.principal_name) == (ErrorCode.NONE, "alice")
    named = create(talks["alice"], owner="alice")
    assert named.error_code == ErrorCode.NONE
    assert seen(talks["alice"]) == {own.token_id, named.token_id}
    assert renew(talks["alice"], own.hmac) == ErrorCode.NONE
    assert expire(talks["alice"], own.hmac) == ErrorCode.NONE
    assert seen(talks["alice"]) == {named.token_id}


def test_a_token_for_another_owner_needs_the_right_on_that_user(talks: Talks) -> None:
    refused = create(talks["alice"], owner="bob")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert refused.hmac == b""
    right = AclOperation.CREATE_TOKENS
    grant(talks, allow("alice", right, ResourceType.USER, "User:carol"))
    refused = create(talks["alice"], owner="bob")
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    grant(talks, allow("alice", right, ResourceType.USER, "User:bob"))
    made = create(talks["alice"], owner="bob")
    assert made.error_code == ErrorCode.NONE
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    assert seen(talks["alice"]) == seen(talks["bob"]) == {made.token_id}
    assert renew(talks["alice"], made.hmac) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(talks["bob"], made.hmac) == ErrorCode.NONE


def test_the_right_is_asked_for_before_the_rest_of_the_request(talks: Talks) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="Group", owner_principal_name="g")
    denied = talks["alice"].exchange(request, version=3)
    assert denied.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    wrong = talks["admin"].exchange(request, version=3)
    assert wrong.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_tokens_of_others_are_seen_by_a_right_on_the_token_or_on_its_owner(talks: Talks) -> None:
    of_bob, of_carol = create(talks["bob"]).token_id, create(talks["carol"]).token_id
    assert seen(talks["alice"]) == set()
    assert seen(talks["alice"], "bob") == set()
    grant(talks, allow("alice", AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, of_bob))
    assert seen(talks["alice"]) == {of_bob}
    grant(talks, allow("alice", AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol"))
    assert seen(talks["alice"]) == {of_bob, of_carol}
    assert seen(talks["alice"], "carol", "nobody") == {of_carol}
    assert seen(talks["admin"]) == {of_bob, of_carol}


def test_hmacs_are_computed_of_what_the_client_sees(
    talks: Talks, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_bob = {create(talks["bob"]).token_id for _ in range(3)}
    of_alice = create(talks["alice"]).token_id
    computed: list[str] = []

    def counted(secret: str, token_id: str) -> bytes:
        computed.append(token_id)
        return token_hmac(secret, token_id)

    monkeypatch.setattr("penstock.broker.api.describe_delegation_token.token_hmac", counted)
    assert seen(talks["alice"]) == {of_alice}
    assert computed == [of_alice]
    assert seen(talks["admin"]) == {of_alice, *of_bob}


def test_renewers_see_renew_and_expire_what_they_may_renew(talks: Talks) -> None:
    made = create(talks["alice"], "bob")
    assert seen(talks["bob"]) == {made.token_id}
    assert seen(talks["carol"]) == set()
    [shown] = describe(talks["bob"]).tokens
    assert [renewer.principal_name for renewer in shown.renewers] == ["bob"]
    assert shown.hmac == made.hmac
    for ask in (renew, expire):
        for who in ("carol", "admin"):  # a super user is no renewer
            code = ask(talks[who], made.hmac)
            assert code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(talks["bob"], made.hmac) == ErrorCode.NONE
    assert expire(talks["bob"], made.hmac) == ErrorCode.NONE
    assert seen(talks["alice"]) == set()
