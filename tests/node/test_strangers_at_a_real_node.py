"""Whatever comes before a log-in, in plain text and over TLS: the connection is closed, memory
stays bounded, and those who have logged in are served on.

`bench/security.py strangers` measures how much slower.
"""

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaError, Message, Producer

from penstock.wire.definition import Message as Request
from penstock.wire.header import encode_request
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.fetch import FetchRequest
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import ProduceRequest
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from rig.held_port import HOST, HeldPort
from rig.sasl import USERS, plain_users
from rig.serve import ServedNode
from rig.tls_files import TlsFiles

WAIT_S = 120
MIB = 1024 * 1024
TOKEN_BYTES_MAX = 512 * 1024  # sasl.server.max.receive.size by default
ATTEMPTS = 150
HOLDERS = 150
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

Words = Callable[[random.Random], bytes]


class Guarded:
    """A node as a process, with a listener of each protocol."""

    def __init__(self, folder: Path) -> None:
        self.files = TlsFiles(folder / "authority")
        self._ports = {name: HeldPort() for name in LISTENERS}
        settings = {
            **self.files.node_settings(),
            "listeners": ",".join(f"{name}://{one.address}" for name, one in self._ports.items()),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
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


def frame(request: Request, version: int) -> bytes:
    parts = encode_request(request, version=version, correlation_id=1, client_id="stranger")
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
    said = frame(SaslHandshakeRequest(mechanism=chance.choice(("PLAIN", "SCRAM-SHA-256"))), 1)
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
    "requests before the log-in": (early_request, ("SASL_PLAINTEXT", "past TLS")),
}


def attempt(guarded: Guarded, place: str, said: bytes) -> bytes:
    """Says it, then that nothing more comes; what came back until the node has closed."""
    received = b""
    match place:
        case "past TLS":
            talk: socket.socket = guarded.connect_by_tls()
        case "below TLS":  # in the place of encrypted records
            with guarded.connect_by_tls() as encrypted:
                talk = socket.socket(fileno=encrypted.detach())
                talk.settimeout(WAIT_S)
        case _:
            talk = guarded.connect(place)
    with talk:
        try:
            talk.sendall(said)
            talk.shutdown(socket.SHUT_WR)
            while came := talk.recv(65536):
                received += came
        except TimeoutError:
            raise AssertionError(f"not closed after {said[:40]!r} at {place}") from None
        except OSError:
            pass  # closed while we spoke
    return received


@pytest.mark.parametrize("kind", BEFORE_LOG_INS)
def test_whatever_is_said_before_a_log_in_ends_in_a_closed_connection(
    guarded: Guarded, kind: str
) -> None:
    words, places = BEFORE_LOG_INS[kind]
    chance = random.Random(kind)
    known = guarded.user("SASL_SSL")
    produce(known)
    before_mib = guarded.resident_mib()
    for number in range(ATTEMPTS):
        attempt(guarded, places[number % len(places)], words(chance))
    produce(known)  # on its old connection
    produce(guarded.user("SASL_SSL"))
    produce(guarded.user("SASL_PLAINTEXT"))
    assert guarded.resident_mib() - before_mib < 64


def test_a_request_before_the_log_in_is_not_answered(guarded: Guarded) -> None:
    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    agreed = attempt(guarded, "SASL_PLAINTEXT", handshake)
    assert agreed
    chance = random.Random(3)
    for _ in range(20):
        asked = early_request(chance)
        answered = attempt(guarded, "SASL_PLAINTEXT", asked)
        assert answered in ((b"", agreed) if asked.startswith(handshake) else (b"",))


def test_strangers_who_never_finish_hold_little_memory_while_others_log_in(
    guarded: Guarded,
) -> None:
    before_mib = guarded.resident_mib()
    hello = client_hello()
    held = []
    for number in range(HOLDERS):
        talk = guarded.connect(("SASL_PLAINTEXT", "SSL")[number % 2])
        # Half of a token as large as is taken, or all that a client says before it is answered.
        talk.sendall(TOKEN_BYTES_MAX.to_bytes(4, "big") + bytes(8000) if number % 2 == 0 else hello)
        held.append(talk)
    produce(guarded.user("SASL_PLAINTEXT"))
    produce(guarded.user("SASL_SSL"))
    assert guarded.resident_mib() - before_mib < 96  # of 38 MiB announced, and buffers of TLS
    for talk in held:
        talk.close()
