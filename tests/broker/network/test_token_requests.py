"""Which clients may ask for delegation tokens at all, and what they are told otherwise."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from rig.dialogue import Dialogue
from rig.running_node import RunningNode
from rig.tokens import (
    SECRET,
    create,
    describe,
    expire,
    logged_in,
    renew,
    seen,
    settings_with_tokens,
)

REQUESTS = (
    (CreateDelegationTokenRequest(max_lifetime_ms=-1), range(1, 4)),
    (RenewDelegationTokenRequest(hmac=b"unknown"), range(1, 3)),
    (ExpireDelegationTokenRequest(hmac=b"unknown"), range(1, 3)),
    (DescribeDelegationTokenRequest(owners=None), range(1, 4)),
)


@contextmanager
def node_at(data: Path, **settings: str) -> Iterator[RunningNode]:
    node = RunningNode(data, settings_with_tokens(**settings))
    node.start()
    try:
        yield node
    finally:
        node.stop()


@contextmanager
def talking(node: RunningNode, user: str | None) -> Iterator[Dialogue]:
    listener = "PLAINTEXT" if user is None else "SASL_PLAINTEXT"
    address = str(node.node.addresses_by_listener[listener])
    talk = Dialogue(address, "unused") if user is None else logged_in(address, user)
    try:
        yield talk
    finally:
        talk.close()


def is_in_snapshot(data: Path, token_id: str) -> bool:
    return any(token_id.encode() in file.read_bytes() for file in data.rglob("*.checkpoint"))


def codes(talk: Dialogue) -> set[int]:
    return {
        talk.exchange(request, version=version).error_code
        for request, versions in REQUESTS
        for version in versions
    }


def test_clients_that_nobody_authenticated_may_not_ask(tmp_path: Path) -> None:
    with node_at(tmp_path) as node, talking(node, None) as talk:
        assert codes(talk) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_without_a_secret_tokens_are_disabled(tmp_path: Path) -> None:
    with node_at(tmp_path, delegation_token_secret_key="") as node:
        with talking(node, "alice") as talk:
            assert codes(talk) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
        with talking(node, None) as talk:
            assert codes(talk) == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_tokens_are_described_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    with node_at(tmp_path) as node, talking(node, "alice") as talk:
        made = create(talk, "bob", owner="carol", lifetime_ms=60_000)
        [shown] = describe(talk).tokens
        assert (shown.principal_name, shown.token_requester_principal_name) == ("carol", "alice")
        assert [(one.principal_type, one.principal_name) for one in shown.renewers] == [
            ("User", "bob")
        ]
        assert (shown.token_id, shown.hmac) == (made.token_id, made.hmac)
        assert (shown.issue_timestamp, shown.expiry_timestamp, shown.max_timestamp) == (
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )
        assert made.max_timestamp_ms == made.issue_timestamp_ms + 60_000
        for who in ("alice", "bob", "carol"):
            assert seen(talk, who) == {made.token_id}
        assert seen(talk, "admin") == set()
        empty = talk.exchange(DescribeDelegationTokenRequest(owners=[]), version=3)
        assert (empty.error_code, empty.tokens) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_tokens_survive_a_restart(tmp_path: Path, has_snapshot: bool) -> None:
    bound = {"metadata_log_max_record_bytes_between_snapshots": "1"} if has_snapshot else {}
    with node_at(tmp_path, **bound) as node, talking(node, "alice") as talk:
        kept, gone = create(talk, "bob"), create(talk)
        assert expire(talk, gone.hmac) == ErrorCode.NONE
        assert renew(talk, kept.hmac, 1_000_000) == ErrorCode.NONE
        before = describe(talk)
        while has_snapshot and not is_in_snapshot(tmp_path, kept.token_id):
            pass
    with node_at(tmp_path) as node, talking(node, "alice") as talk:
        assert describe(talk) == before
        assert seen(talk) == {kept.token_id}


def test_expired_tokens_are_removed_by_the_controller(tmp_path: Path) -> None:
    settings = {"delegation_token_expiry_check_interval_ms": "50"}
    with node_at(tmp_path, **settings) as node, talking(node, "alice") as talk:
        kept = create(talk)
        short = create(talk, lifetime_ms=1)
        assert short.error_code == ErrorCode.NONE
        while short.token_id in (left := seen(talk)):
            pass
        assert left == {kept.token_id}


def test_neither_secret_nor_hmac_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"delegation_token_expiry_check_interval_ms": "50"}
    caplog.set_level(logging.DEBUG)
    with node_at(tmp_path, **settings) as node, talking(node, "alice") as talk:
        made = create(talk, lifetime_ms=1)
        other = create(talk)
        renew(talk, other.hmac)
        expire(talk, b"unknown-hmac")
        while made.token_id in seen(talk):
            pass
    said = "\n".join(caplog.messages)
    assert made.token_id in said
    assert SECRET not in said
    for mac in (made.hmac, other.hmac, b"unknown-hmac"):
        assert mac.hex() not in said
        assert repr(mac)[2:-1] not in said
