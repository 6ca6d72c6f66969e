"""OAUTHBEARER: tokens that count, and all that do not."""

import base64
import hmac
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from penstock.security.sasl.exchange import Accepted, Challenge, Rejected
from penstock.security.sasl.json_web_token import (
    ExpectedClaims,
    TokenKeys,
    UnusableKeys,
    checked_claims,
    read_keys,
)
from penstock.security.sasl.oauthbearer import InvalidToken, OauthBearerClient, OauthBearerServer

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "ec", "use": "sig"})
FOREIGN = RSAKey.generate_key(2048, {"kid": "rsa"})
DOCUMENT = json.dumps({"keys": [RSA.as_dict(private=False), CURVE.as_dict(private=False)]}).encode()
EXPECTED = ExpectedClaims(issuer="https://issuer", audiences=("penstock",))
CLAIMS: dict[str, object] = {
    "iss": "https://issuer",
    "aud": "penstock",
    "sub": "alice",
    "iat": NOW - 10,
    "exp": NOW + 60,
}


def token(key: RSAKey | ECKey = RSA, algorithm: str = "RS256", **changes: object) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    kid = str(key.as_dict(private=False)["kid"])
    return jwt.encode({"alg": algorithm, "kid": kid}, claims, key, algorithms=[algorithm])


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def server() -> OauthBearerServer:
    return OauthBearerServer(TokenKeys(DOCUMENT, EXPECTED))


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (CURVE, "ES256")])
def test_a_token_of_the_issuer_logs_its_subject_in(key: RSAKey | ECKey, algorithm: str) -> None:
    first = OauthBearerClient(token(key, algorithm)).first()
    verdict = server().respond(first, now_ms=NOW_MS)
    assert verdict == Accepted(user="alice", expires_ms=(NOW + 60) * 1000)


def test_one_of_several_audiences_is_enough() -> None:
    first = OauthBearerClient(token(aud=["other", "penstock"])).first()
    assert isinstance(server().respond(first, now_ms=NOW_MS), Accepted)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"exp": NOW - 31}, "expired"),
        ({"exp": None}, "expires"),
        ({"exp": "soon"}, "no time"),
        ({"exp": True}, "no time"),
        ({"nbf": NOW + 60}, "not valid yet"),
        ({"iat": NOW + 60}, "not valid yet"),
        ({"iss": "https://other"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"sub": None}, "user"),
        ({"sub": ""}, "user"),
        ({"sub": 7}, "user"),
    ],
)
def test_claims_that_do_not_fit_are_refused_with_the_claim(
    changes: dict[str, object], said: str
) -> None:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    with pytest.raises(InvalidToken, match=said):
        checked_claims(claims, EXPECTED, now_ms=NOW_MS)


def test_a_refusal_is_told_and_acknowledged_before_it_ends() -> None:
    talk = server()
    one = OauthBearerClient(token(exp=NOW - 100))
    refusal = talk.respond(one.first(), now_ms=NOW_MS)
    assert refusal == Challenge(token=b'{"status":"invalid_token"}')
    acknowledged = one.respond(refusal.token)
    assert acknowledged == b"\x01"
    assert talk.respond(acknowledged, now_ms=NOW_MS) == Rejected(reason="The token has expired")


def test_a_foreign_key_of_the_same_name_does_not_count() -> None:
    with pytest.raises(InvalidToken, match="signature"):
        TokenKeys(DOCUMENT, EXPECTED).verify(token(FOREIGN), now_ms=NOW_MS)


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_token_without_signature_does_not_count() -> None:
    header, claims, _ = token().split(".")
    unsigned = jwt.encode({"alg": "none"}, CLAIMS, OctKey.generate_key(), algorithms=["none"])
    for forged in (f"{header}.{claims}.", unsigned, f"{header}.{claims}"):
        with pytest.raises(InvalidToken):
            TokenKeys(DOCUMENT, EXPECTED).verify(forged, now_ms=NOW_MS)


def test_the_public_key_does_not_pass_for_a_shared_secret() -> None:
    signed = ".".join(
        encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "rsa"}, CLAIMS)
    )
    secret = RSA.as_pem(private=False)
    forged = f"{signed}.{encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"
    with pytest.raises(InvalidToken):
        TokenKeys(DOCUMENT, EXPECTED).verify(forged, now_ms=NOW_MS)


def test_altered_claims_do_not_count() -> None:
    header, _, signature = token().split(".")
    _, claims, _ = token(sub="admin").split(".")
    with pytest.raises(InvalidToken):
        TokenKeys(DOCUMENT, EXPECTED).verify(f"{header}.{claims}.{signature}", now_ms=NOW_MS)


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b'{"keys":[]}', b'{"keys":[{"kty":"oct","k":"AAAA"}]}', b'{"keys":7}', b"\xff"],
)
def test_a_document_without_public_keys_is_refused(document: bytes) -> None:
    with pytest.raises(UnusableKeys):
        read_keys(document)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"p=x,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"\xff",
    ],
)
def test_messages_without_a_bearer_token_are_rejected(first: bytes) -> None:
    assert isinstance(server().respond(first, now_ms=NOW_MS), Rejected)


def test_another_authorization_id_is_rejected() -> None:
    first = f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode()
    assert isinstance(server().respond(first, now_ms=NOW_MS), Rejected)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(first: bytes) -> None:
    assert isinstance(server().respond(first, now_ms=NOW_MS), Rejected | Challenge)


@given(st.text(max_size=300))
def test_no_text_passes_for_a_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        TokenKeys(DOCUMENT, EXPECTED).verify(text, now_ms=NOW_MS)


# Any JSON where an object is wanted, and objects that hold anything under the names that count.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["alg", "RS256", "kid", "rsa"]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "jwk", "x"]), parts)
    ),
    max_leaves=8,
)


@given(header=JSON, payload=JSON)
@example(header=["alg"], payload={})
@example(header="alg", payload={})
@example(header={"alg": ["RS256"]}, payload={})
@example(header={"alg": "RS256", "crit": 5}, payload={})
def test_no_header_makes_it_fail(header: object, payload: object) -> None:
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), b"\0")
    forged = ".".join(encoded(part) for part in parts)
    first = OauthBearerClient(forged).first()
    assert isinstance(server().respond(first, now_ms=NOW_MS), Rejected | Challenge)


@given(JSON)
@example([])
@example({"keys": [{"kty": "RSA", "n": 7}]})
def test_no_document_of_keys_makes_it_fail(document: object) -> None:
    with pytest.raises(UnusableKeys):
        read_keys(json.dumps(document).encode())


def test_signed_claims_that_are_nested_too_deeply_are_refused() -> None:
    deep = '{"sub": "alice", "exp": 9999999999, "x": ' + "[" * 20_000 + "]" * 20_000 + "}"
    signed = jws.serialize_compact({"alg": "RS256", "kid": "rsa"}, deep.encode(), RSA)
    with pytest.raises(InvalidToken):
        TokenKeys(DOCUMENT, EXPECTED).verify(signed, now_ms=NOW_MS)


def test_a_document_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(UnusableKeys):
        read_keys(b"[" * 100_000)


def test_the_keys_of_the_test_are_read() -> None:
    assert isinstance(read_keys(DOCUMENT), KeySet)
