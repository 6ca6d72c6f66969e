"""Whatever comes before a log-in, in plain text and over TLS: the connection is closed in time,
memory stays bounded, and those who have logged in are served on. How long it took and how much it
held is printed (`pytest -rP`).

`bench/security.py strangers` measures how much slower.
"""

import base64
import json
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError, Message, Producer

from penstock.model import limit
from penstock.wire.definition import Message as Request
from penstock.wire.header import encode_request
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.fetch import FetchRequest
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import ProduceRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.held_port import HOST, HeldPort
from rig.logins.login import TokenIssuer
from rig.sasl import USERS, plain_users
from rig.serve import ServedNode
from rig.tls_files import TlsFiles

WAIT_S = 120  # for what is not a matter of these limits
# A stranger is either in a handshake of TLS or in a log-in. Each is given 10 seconds, and one that
# is refused a moment to read why; the rest is for a busy machine.
GIVEN_SECONDS = (
    max(limit.TLS_HANDSHAKE_MS_MAX, limit.AUTHENTICATION_MS_MAX) + limit.TLS_REFUSED_MS_MAX
) / 1000
CLOSED_SECONDS_MAX = GIVEN_SECONDS + 4
MIB = 1024 * 1024
TOKEN_BYTES_MAX = 512 * 1024  # sasl.server.max.receive.size by default
ATTEMPTS = 150
HOLDERS = 150
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
QUESTION = 77  # number of a request that is answered after a log-in alone
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

Words = Callable[[random.Random], bytes]


class Guarded:
    """A node as a process, with a listener of each protocol."""

    def __init__(self, folder: Path) -> None:
        self.files = TlsFiles(folder / "authority")
        issuer = TokenIssuer(folder)
        self.token = issuer.token("token").read_text()
        self._ports = {name: HeldPort() for name in LISTENERS}
        settings = {
            **self.files.node_settings(),
            "listeners": ",".join(f"{name}://{one.address}" for name, one in self._ports.items()),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **issuer.node_settings(),
            "connection.failed.authentication.delay.ms": "10",  # many are refused here
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(),
            "auto.create.topics.enable": "true",
        }
        self.node = ServedNode(data=folder / "data", settings=settings)
        self.node.start()

    def connect(self, listener: str) -> socket.socket:
        return socket.create_connection((HOST, self._ports[listener].number), WAIT_S)

    def connect_by_tls(self) -> ssl.SSLSocket:
        """Past the handshake of TLS, before any log-in."""
        context = ssl.create_default_context(cafile=str(self.files.trusted))
        return context.wrap_socket(self.connect("SASL_SSL"), server_hostname=HOST)

    def user(self, listener: str) -> Producer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self._ports[listener].address,
            "security.protocol": listener,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
            "ssl.ca.location": str(self.files.trusted),
            "linger.ms": 0,
            "log_level": 0,
        }
        return Producer(settings)

    def resident_mib(self) -> float:
        return float(psutil.Process(self.node.pid).memory_info().rss / MIB)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    found = Guarded(tmp_path_factory.mktemp("guarded"))
    yield found
    assert found.node.stop() == 0
    assert "Traceback" not in found.node.logged()


def produce(user: Producer) -> None:
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    user.produce("t", b"served", on_delivery=told)
    assert user.flush(WAIT_S) == 0
    assert refused == []


def frame(request: Request, version: int, *, number: int = 1) -> bytes:
    parts = encode_request(request, version=version, correlation_id=number, client_id="stranger")
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


@cache
def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    talk = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()


def junk(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 3000))


def cut_hello(chance: random.Random) -> bytes:
    hello = client_hello()
    return hello[: chance.randrange(1, len(hello))]


def changed_hello(chance: random.Random) -> bytes:
    hello = bytearray(client_hello())
    for _ in range(chance.randint(1, 20)):
        hello[chance.randrange(len(hello))] = chance.randrange(256)
    return bytes(hello)


def tls_records(chance: random.Random) -> bytes:
    """Records of any kind and length, the last one cut."""
    records = b""
    for _ in range(chance.randint(1, 5)):
        size = chance.choice((0, 1, 64, 16384, 16640, 65535))
        kind = chance.choice((20, 21, 22, 23, 24, 0))
        records += bytes([kind, 3, chance.randrange(5)]) + size.to_bytes(2, "big")
        records += chance.randbytes(size)
    return records[: len(records) - chance.randint(1, 4)]


def large_token(chance: random.Random) -> bytes:
    """A token that is larger than is taken, or that says so of itself."""
    said = frame(SaslHandshakeRequest(mechanism=chance.choice(MECHANISMS)), 1)
    token = frame(SaslAuthenticateRequest(auth_bytes=chance.randbytes(300)), 1)
    match chance.randrange(4):
        case 0:
            token = frame(SaslAuthenticateRequest(auth_bytes=bytes(TOKEN_BYTES_MAX)), 1)
        case 1:
            token = (TOKEN_BYTES_MAX + 1).to_bytes(4, "big") + bytes(1000)
        case 2:
            token = (2**31 - 1).to_bytes(4, "big") + bytes(1000)
        case _:
            at = len(token) - 304  # where the token says how long it is
            token = token[:at] + (2**31 - 1).to_bytes(4, "big") + token[at + 4 :]
    return said + token


def bearer_log_in(token: str) -> list[bytes]:
    """What a client says first who has such a token."""
    first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    return [
        frame(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1),
        frame(SaslAuthenticateRequest(auth_bytes=first), 1),
    ]


def bearer_of_nobody(token: str) -> bytes:
    """With the acknowledgement that it has been refused, and a question all the same."""
    acknowledged = frame(SaslAuthenticateRequest(auth_bytes=b"\x01"), 1)
    return b"".join((*bearer_log_in(token), acknowledged, question()))


def question() -> bytes:
    return frame(MetadataRequest(topics=None), 12, number=QUESTION)


def bearer_token(chance: random.Random) -> bytes:
    """Of any length and depth, by any algorithm, and signed by nobody."""
    algorithm = chance.choice(("none", "HS256", "RS256", "RS256", "ES512", "", None, 7))
    deep = "[" * 5000 + "]" * 5000
    header = json.dumps({"alg": algorithm, "kid": chance.choice(("one", "one", "two", 1))})
    claims = json.dumps({"sub": "alice", "exp": chance.choice((0, 2**33, 1e999))})
    parts = [
        chance.choice((header, header, header, header[:-1], f'{{"alg":{deep}}}')).encode(),
        chance.choice((claims, deep, "null", "")).encode(),
        chance.randbytes(chance.choice((0, 1, 256, 100_000))),
    ]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts]
    return bearer_of_nobody(".".join(encoded[: chance.choice((1, 2, 3, 3, 3, 3))]))


def early_request(chance: random.Random) -> bytes:
    """What only those may ask who have logged in."""
    asked = chance.choice(
        (
            frame(MetadataRequest(topics=None), 12),
            frame(ProduceRequest(acks=1, timeout_ms=1000), 9),
            frame(FetchRequest(max_wait_ms=0), 12),
            frame(CreateTopicsRequest(topics=[CreatableTopic(name="early")]), 7),
        )
    )
    if chance.random() < 0.5:
        return frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + asked
    return asked


BEFORE_LOG_INS: dict[str, tuple[Words, tuple[str, ...]]] = {
    "random bytes": (junk, ("SSL", "SASL_PLAINTEXT", "SASL_SSL", "past TLS")),
    "a hello that is cut": (cut_hello, ("SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "a hello with other bytes": (changed_hello, ("SSL", "SASL_SSL")),
    "records of TLS that are cut": (tls_records, ("SSL", "SASL_SSL", "below TLS")),
    "tokens that are too large": (large_token, ("SASL_PLAINTEXT", "past TLS")),
    "bearer tokens of nobody": (bearer_token, ("SASL_PLAINTEXT", "past TLS")),
    "requests before the log-in": (early_request, ("SASL_PLAINTEXT", "past TLS")),
}


class Waits:
    """How long connections were open after a stranger had said what it had to say."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    def until_closed(self, talk: socket.socket, said: bytes, *, since: float) -> bytes:
        """What came back until the node has closed."""
        received = b""
        while True:
            talk.settimeout(max(since + CLOSED_SECONDS_MAX - time.monotonic(), 0.001))
            try:
                came = talk.recv(65536)
            except TimeoutError:
                raise AssertionError(f"not closed in time after {said[:40]!r}") from None
            except OSError:
                break  # closed while we spoke
            if not came:
                break
            received += came
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - since)
        return received


def attempt(guarded: Guarded, place: str, said: bytes, waits: Waits) -> bytes:
    """Says it, then that nothing more comes; what came back until the node has closed."""
    match place:
        case "past TLS":
            talk: socket.socket = guarded.connect_by_tls()
        case "below TLS":  # in the place of encrypted records
            with guarded.connect_by_tls() as encrypted:
                talk = socket.socket(fileno=encrypted.detach())
        case _:
            talk = guarded.connect(place)
    with talk:
        since = time.monotonic()
        talk.settimeout(CLOSED_SECONDS_MAX)
        try:
            talk.sendall(said)
            talk.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise AssertionError(f"neither read nor closed: {said[:40]!r} at {place}") from None
        except OSError:
            pass  # closed while we spoke; what was said before may still be read
        return waits.until_closed(talk, said, since=since)


@pytest.mark.parametrize("kind", BEFORE_LOG_INS)
def test_whatever_is_said_before_a_log_in_ends_in_a_closed_connection(
    guarded: Guarded, kind: str
) -> None:
    words, places = BEFORE_LOG_INS[kind]
    chance = random.Random(kind)
    known = guarded.user("SASL_SSL")
    produce(known)
    before_mib = guarded.resident_mib()
    waits = Waits()
    for number in range(ATTEMPTS):
        attempt(guarded, places[number % len(places)], words(chance), waits)
    produce(known)  # on its old connection
    produce(guarded.user("SASL_SSL"))
    produce(guarded.user("SASL_PLAINTEXT"))
    grown_mib = guarded.resident_mib() - before_mib
    print(f"{kind}: closed within {waits.longest_seconds:.2f} s, {grown_mib:+.1f} MiB")
    assert grown_mib < 64


def test_a_request_before_the_log_in_is_not_answered(guarded: Guarded) -> None:
    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    waits = Waits()
    agreed = attempt(guarded, "SASL_PLAINTEXT", handshake, waits)
    assert agreed
    chance = random.Random(3)
    for _ in range(20):
        asked = early_request(chance)
        answered = attempt(guarded, "SASL_PLAINTEXT", asked, waits)
        assert answered in ((b"", agreed) if asked.startswith(handshake) else (b"",))


def answered_numbers(received: bytes) -> list[int]:
    """Of the requests whose replies these are."""
    numbers = []
    while len(received) >= 8:
        numbers.append(int.from_bytes(received[4:8], "big"))
        received = received[4 + int.from_bytes(received[:4], "big") :]
    return numbers


def test_a_changed_bearer_token_lets_nobody_in(guarded: Guarded) -> None:
    chance = random.Random(5)
    waits = Waits()
    whole = guarded.token
    places = [at for at, one in enumerate(whole[:-1]) if one != "."]  # the last has unused bits
    for at in chance.sample(places, 40):
        other = chance.choice("abcXYZ0189-_".replace(whole[at], ""))
        asked = bearer_of_nobody(whole[:at] + other + whole[at + 1 :])
        answered = answered_numbers(attempt(guarded, "SASL_PLAINTEXT", asked, waits))
        assert QUESTION not in answered, at
    asked = b"".join((*bearer_log_in(whole), question()))
    assert QUESTION in answered_numbers(attempt(guarded, "SASL_PLAINTEXT", asked, waits))


def test_strangers_who_never_finish_hold_little_memory_while_others_log_in(
    guarded: Guarded,
) -> None:
    before_mib = guarded.resident_mib()
    hello = client_hello()
    # Half of a token as large as is taken, or all that a client says before it is answered.
    half = TOKEN_BYTES_MAX.to_bytes(4, "big") + bytes(8000)
    held = []
    for number in range(HOLDERS):
        talk = guarded.connect(("SASL_PLAINTEXT", "SSL")[number % 2])
        talk.sendall((half, hello)[number % 2])
        held.append((talk, time.monotonic()))
    produce(guarded.user("SASL_PLAINTEXT"))
    produce(guarded.user("SASL_SSL"))
    grown_mib = guarded.resident_mib() - before_mib
    waits = Waits()
    for number, (talk, since) in enumerate(held):
        waits.until_closed(talk, (half, hello)[number % 2], since=since)
        talk.close()
    print(f"not finished: closed within {waits.longest_seconds:.2f} s, {grown_mib:+.1f} MiB")
    assert grown_mib < 96  # of 38 MiB announced, and buffers of TLS
