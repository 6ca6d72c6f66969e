"""Delegation tokens are created, renewed, expired and removed; snapshots keep them."""

import base64

import pytest

from penstock.metadata.controller.delegation_tokens import (
    ExpiredTokensRemoved,
    RemoveExpiredTokens,
)
from penstock.metadata.image.difference import difference
from penstock.metadata.image.image import Image
from penstock.metadata.loader import Loader
from penstock.metadata.records import encode_record
from penstock.metadata.snapshot import image_records
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DELEGATION_TOKEN_RENEWERS_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import LONG_MAX
from penstock.security.delegation_token import token_hmac, token_password
from penstock.security.principal import USER, Principal
from penstock.wire.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from rig.cluster import Cluster

SECRET = "the secret of the cluster"
DAY_MS = 86_400_000
NOW_MS = 1_000_000
ALICE, BOB, CAROL = (Principal(USER, name) for name in ("alice", "bob", "carol"))


def cluster_with_tokens(**settings: str) -> Cluster:
    cluster = Cluster(delegation_token_secret_key=SECRET, **settings)
    cluster.requester, cluster.wall_ms = ALICE, NOW_MS
    return cluster


def create(
    cluster: Cluster,
    *renewers: Principal,
    owner: Principal | None = None,
    lifetime_ms: int = -1,
) -> CreateDelegationTokenResponse:
    reply = cluster.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.kind,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[
                CreatableRenewer(principal_type=one.kind, principal_name=one.name)
                for one in renewers
            ],
            max_lifetime_ms=lifetime_ms,
        )
    )
    assert isinstance(reply, CreateDelegationTokenResponse)
    return reply


def renew(cluster: Cluster, mac: bytes, period_ms: int = -1) -> int:
    reply = cluster.ask(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms))
    assert isinstance(reply, RenewDelegationTokenResponse)
    return reply.expiry_timestamp_ms


def expire(cluster: Cluster, mac: bytes, period_ms: int = -1) -> int:
    reply = cluster.ask(ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms))
    assert isinstance(reply, ExpireDelegationTokenResponse)
    return reply.expiry_timestamp_ms


def removed(cluster: Cluster) -> tuple[str, ...]:
    reply = cluster.ask(RemoveExpiredTokens())
    assert isinstance(reply, ExpiredTokensRemoved)
    return reply.token_ids


def test_a_token_is_of_whoever_asks_for_it_and_lasts_as_the_settings_say() -> None:
    cluster = cluster_with_tokens()
    reply = create(cluster, BOB, BOB)
    (token,) = cluster.image.delegation_tokens.values()
    assert (token.owner, token.requester, token.renewers) == (
        "User:alice",
        "User:alice",
        ("User:bob",),
    )
    assert (token.issued_ms, token.expires_ms) == (NOW_MS, NOW_MS + DAY_MS)
    assert token.max_ms == NOW_MS + 7 * DAY_MS
    assert (reply.principal_type, reply.principal_name) == ("User", "alice")
    assert (reply.issue_timestamp_ms, reply.expiry_timestamp_ms, reply.max_timestamp_ms) == (
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
    )
    assert reply.hmac == token_hmac(SECRET, token.token_id)


def test_the_hmac_is_the_one_that_apache_kafka_computes() -> None:
    """Of `HmacSHA512`, as Java has it: a vector of RFC 4231."""
    expected = (
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
    )
    mac = token_hmac("Jefe", "what do ya want for nothing?")
    assert mac.hex() == expected
    assert base64.b64decode(token_password(mac)) == mac


def test_neither_secret_nor_hmac_is_in_a_record() -> None:
    cluster = cluster_with_tokens()
    mac = create(cluster).hmac
    written = b"".join(map(encode_record, cluster.records))
    assert SECRET.encode() not in written
    assert mac not in written
    assert SECRET not in repr(parse_broker({"delegation.token.secret.key": SECRET}))


def test_another_owner_can_be_named() -> None:
    cluster = cluster_with_tokens()
    reply = create(cluster, owner=BOB)
    (token,) = cluster.image.delegation_tokens.values()
    assert (token.owner, token.requester) == ("User:bob", "User:alice")
    assert (reply.principal_name, reply.token_requester_principal_name) == ("bob", "alice")


@pytest.mark.parametrize(("asked_ms", "lasts_ms"), [(5, 5), (0, 200), (-1, 200), (LONG_MAX, 200)])
def test_the_lifetime_is_at_most_that_of_the_settings(asked_ms: int, lasts_ms: int) -> None:
    cluster = cluster_with_tokens(
        delegation_token_max_lifetime_ms="200", delegation_token_expiry_time_ms="100"
    )
    reply = create(cluster, lifetime_ms=asked_ms)
    assert reply.max_timestamp_ms == NOW_MS + lasts_ms
    assert reply.expiry_timestamp_ms == NOW_MS + min(lasts_ms, 100)


def test_times_do_not_exceed_what_a_record_can_hold() -> None:
    cluster = cluster_with_tokens(delegation_token_max_lifetime_ms=str(LONG_MAX))
    assert create(cluster).max_timestamp_ms == LONG_MAX


@pytest.mark.parametrize("kind", ["Group", "user", ""])
def test_only_users_own_and_renew(kind: str) -> None:
    cluster = cluster_with_tokens()
    for asked in (
        {"owner_principal_type": kind, "owner_principal_name": "x"},
        {"renewers": [CreatableRenewer(principal_type=kind, principal_name="x")]},
    ):
        with pytest.raises(RequestError) as refused:
            cluster.ask(CreateDelegationTokenRequest(**asked))
        assert refused.value.code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not cluster.image.delegation_tokens


def test_renewers_have_names_and_are_not_too_many() -> None:
    cluster = cluster_with_tokens()
    for renewers, code in (
        ([Principal(USER, "")], ErrorCode.INVALID_REQUEST),
        ([Principal(USER, "x" * 1025)], ErrorCode.INVALID_REQUEST),
        ([BOB] * (DELEGATION_TOKEN_RENEWERS_MAX + 1), ErrorCode.POLICY_VIOLATION),
    ):
        with pytest.raises(RequestError) as refused:
            create(cluster, *renewers)
        assert refused.value.code == code


def test_tokens_of_a_cluster_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.metadata.controller.delegation_tokens.DELEGATION_TOKENS_MAX", 1)
    cluster = cluster_with_tokens()
    create(cluster)
    with pytest.raises(RequestError) as refused:
        create(cluster)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_no_owner_takes_all_tokens_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "penstock.metadata.controller.delegation_tokens.DELEGATION_TOKENS_OF_OWNER_MAX", 2
    )
    cluster = cluster_with_tokens()
    of_alice = [create(cluster).hmac for _ in range(2)]
    with pytest.raises(RequestError) as refused:
        create(cluster)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    cluster.requester = BOB
    create(cluster)
    with pytest.raises(RequestError):
        create(cluster, owner=ALICE)
    cluster.requester = ALICE
    expire(cluster, of_alice[0])
    create(cluster)


def test_an_unknown_hmac_costs_the_same_however_many_tokens_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_tokens()
    macs = [create(cluster).hmac for _ in range(20)]
    assert renew(cluster, macs[0]) == NOW_MS + DAY_MS
    computed: list[str] = []

    def counted(secret: str, token_id: str) -> bytes:
        computed.append(token_id)
        return token_hmac(secret, token_id)

    monkeypatch.setattr("penstock.security.delegation_token.token_hmac", counted)
    for ask in (renew, expire):
        with pytest.raises(RequestError):
            ask(cluster, bytes(64))
    assert not computed
    added = create(cluster)
    for mac in (*macs, added.hmac):
        renew(cluster, mac)
    assert computed == [added.token_id]


@pytest.mark.parametrize("who", [ALICE, BOB])
def test_owner_and_renewers_renew_up_to_the_last_day(who: Principal) -> None:
    cluster = cluster_with_tokens()
    mac = create(cluster, BOB, lifetime_ms=3 * DAY_MS).hmac
    cluster.requester = who
    assert renew(cluster, mac, 500) == NOW_MS + 500
    assert renew(cluster, mac, 2 * DAY_MS) == NOW_MS + DAY_MS
    assert renew(cluster, mac) == NOW_MS + DAY_MS
    cluster.wall_ms += DAY_MS
    assert renew(cluster, mac) == NOW_MS + 2 * DAY_MS
    cluster.wall_ms += DAY_MS
    assert renew(cluster, mac) == NOW_MS + 3 * DAY_MS
    cluster.wall_ms += 100
    assert renew(cluster, mac) == NOW_MS + 3 * DAY_MS
    (token,) = cluster.image.delegation_tokens.values()
    assert token.expires_ms == NOW_MS + 3 * DAY_MS


def test_a_period_of_minus_one_removes_a_token_at_once() -> None:
    cluster = cluster_with_tokens()
    mac = create(cluster, BOB).hmac
    cluster.requester = BOB
    assert expire(cluster, mac) == NOW_MS
    assert not cluster.image.delegation_tokens
    assert not cluster.state.delegation_tokens


def test_a_token_can_be_made_to_expire_later() -> None:
    cluster = cluster_with_tokens()
    mac = create(cluster, lifetime_ms=1000).hmac
    assert expire(cluster, mac, 10) == NOW_MS + 10
    assert expire(cluster, mac, 5000) == NOW_MS + 1000
    assert expire(cluster, mac, LONG_MAX) == NOW_MS + 1000


def test_others_can_neither_renew_nor_expire() -> None:
    cluster = cluster_with_tokens()
    cluster.requester = BOB
    mac = create(cluster, owner=ALICE).hmac  # whoever asked for it is not its owner
    for who in (BOB, CAROL):
        cluster.requester = who
        for ask in (renew, expire):
            with pytest.raises(RequestError) as refused:
                ask(cluster, mac)
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert len(cluster.image.delegation_tokens) == 1


def test_a_token_that_expired_is_only_removed() -> None:
    cluster = cluster_with_tokens()
    mac = create(cluster, lifetime_ms=1000).hmac
    cluster.wall_ms += 1000
    assert removed(cluster) == ()
    cluster.wall_ms += 1
    for asked in (
        RenewDelegationTokenRequest(hmac=mac, renew_period_ms=-1),
        ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=10),
    ):
        with pytest.raises(RequestError) as refused:
            cluster.ask(asked)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(cluster, mac) == cluster.wall_ms
    assert not cluster.image.delegation_tokens


def test_expired_tokens_are_removed_and_others_stay() -> None:
    cluster = cluster_with_tokens()
    short = create(cluster, lifetime_ms=1000).token_id
    long = create(cluster).token_id
    cluster.wall_ms += 1001
    assert removed(cluster) == (short,)
    assert list(cluster.image.delegation_tokens) == [long]
    assert removed(cluster) == ()


@pytest.mark.parametrize("mac", [b"", b"x", bytes(64)])
def test_an_unknown_token_is_not_found(mac: bytes) -> None:
    cluster = cluster_with_tokens()
    create(cluster)
    for ask in (renew, expire):
        with pytest.raises(RequestError) as refused:
            ask(cluster, mac)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("settings", [{}, {"delegation_token_secret_key": ""}])
def test_without_a_secret_there_are_no_tokens(settings: dict[str, str]) -> None:
    cluster = Cluster(**settings)
    for ask in (
        CreateDelegationTokenRequest(max_lifetime_ms=-1),
        RenewDelegationTokenRequest(hmac=b"x"),
        ExpireDelegationTokenRequest(hmac=b"x"),
    ):
        with pytest.raises(RequestError) as refused:
            cluster.ask(ask)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_snapshot_has_the_tokens_as_they_are() -> None:
    cluster = cluster_with_tokens()
    create(cluster, BOB, CAROL, owner=BOB)
    gone = create(cluster)
    renew(cluster, create(cluster).hmac, 5)
    expire(cluster, gone.hmac)
    loader = Loader()
    records = list(image_records(cluster.image))
    loader.load(records, next_offset=Offset(len(records)), epoch=LeaderEpoch(1))
    image = loader.image
    assert len(image.delegation_tokens) == 2
    assert dict(image.delegation_tokens) == dict(cluster.image.delegation_tokens)
    assert dict(image.delegation_tokens) == cluster.state.delegation_tokens
    assert difference(cluster.image, image).delegation_tokens_changed == ()
    assert difference(Image(), image).delegation_tokens_changed == tuple(image.delegation_tokens)
