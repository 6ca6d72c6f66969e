"""The first log-in by a delegation token needs a hash, which nobody else waits for."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.network.failed_logins import FailedLogins
from penstock.broker.network.hashing import Hashes
from penstock.broker.network.reauthentication import INTERVAL_MS_MIN, Reauthentication
from penstock.model.error import CloseConnection, ErrorCode
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.security.delegation_token import DelegationToken, token_hmac, token_password
from penstock.security.principal import USER, Principal
from penstock.security.sasl.dialogue import Dialogue as SaslDialogue
from penstock.security.sasl.dialogue import Login
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.security.sasl.scram_server import ScramServer
from penstock.security.sasl.token_credentials import TokenCredentials
from penstock.wire.definition import Message
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.api_versions import ApiVersionsRequest
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from penstock.world.clock import RealClock
from penstock.world.ports import Address
from rig.running_node import RunningNode
from rig.tokens import create, log_in_by_token, logged_in, seen, settings_with_tokens

SHA_256 = ScramMechanism.SCRAM_SHA_256
SECRET = "secret"
PATIENCE_SECONDS = 60


class Hashed:
    """Notes which threads hash, and how many at once. Those that it is told to are held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[int] = []
        self.at_once_max = 0
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.is_held_up: Callable[[int], bool] = lambda _: False
        self._at_once = 0
        self._lock = threading.Lock()
        self._hash = hashlib.pbkdf2_hmac
        monkeypatch.setattr("hashlib.pbkdf2_hmac", self.pbkdf2_hmac)

    def pbkdf2_hmac(self, *given: Any) -> bytes:
        thread = threading.get_ident()
        with self._lock:
            self.threads.append(thread)
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
        if self.is_held_up(thread):
            self.has_begun.set()
            assert self.may_go_on.wait(PATIENCE_SECONDS)
        found = self._hash(*given)
        with self._lock:
            self._at_once -= 1
        return found


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Hashed:
    return Hashed(monkeypatch)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    node = RunningNode(tmp_path, settings_with_tokens())
    node.start()
    yield node
    node.stop()


async def thread_of_loop() -> int:
    return threading.get_ident()


def test_others_are_answered_while_a_token_is_hashed(node: RunningNode, hashed: Hashed) -> None:
    address = str(node.node.addresses_by_listener["SASL_PLAINTEXT"])
    alice = logged_in(address, "alice")
    made = create(alice)
    loop = node.run(thread_of_loop())
    with ThreadPoolExecutor(1) as threads:
        client = threads.submit(threading.get_ident).result()
        hashed.is_held_up = lambda thread: thread not in (client, loop)
        entering = threads.submit(
            log_in_by_token, address, made.token_id, made.hmac, "SCRAM-SHA-256"
        )
        try:
            assert hashed.has_begun.wait(PATIENCE_SECONDS)
            assert seen(alice) == {made.token_id}
        finally:
            hashed.may_go_on.set()
        talk = entering.result()
    assert talk is not None
    assert loop not in hashed.threads
    # The second log-in finds what the first one left: the client alone hashes.
    hashed_before = len(hashed.threads)
    again = log_in_by_token(address, made.token_id, made.hmac, "SCRAM-SHA-256")
    assert again is not None
    assert hashed.threads[hashed_before:] == [threading.get_ident()]
    for one in (talk, again, alice):
        one.close()


class Cluster:
    """Its tokens, and log-ins by them."""

    def __init__(self, count: int) -> None:
        self.tokens = {
            f"token-{number}": DelegationToken(
                token_id=f"token-{number}",
                owner="User:alice",
                requester="User:alice",
                renewers=(),
                issued_ms=0,
                max_ms=2**60,
                expires_ms=2**60,
            )
            for number in range(count)
        }
        self.credentials = TokenCredentials(SECRET, lambda: self.tokens)

    def exchange(self) -> ScramServer:
        return ScramServer(
            SHA_256,
            {}.get,
            nonce="server",
            decoy_key=b"decoy",
            token=lambda token_id, now_ms: self.credentials.find(SHA_256, token_id, now_ms=now_ms),
        )

    def dialogue(self) -> SaslDialogue:
        dialogue = SaslDialogue({Mechanism.SCRAM_SHA_256: self.exchange})
        assert dialogue.handshake("SCRAM-SHA-256").code == ErrorCode.NONE
        return dialogue


def client_of(token_id: str) -> ScramClient:
    password = token_password(token_hmac(SECRET, token_id))
    return ScramClient(token_id, SaltedPasswords(SHA_256, password), nonce="client", by_token=True)


@pytest.mark.parametrize("tokens", [1, 8])
def test_each_token_is_hashed_once_and_one_at_a_time(hashed: Hashed, tokens: int) -> None:
    """However many log-ins there are at once."""
    cluster = Cluster(tokens)
    hashes = Hashes(RealClock())

    async def scenario() -> None:
        answers = await asyncio.gather(
            *(
                hashes.answer(cluster.dialogue(), client_of(f"token-{number % tokens}").first())
                for number in range(24)
            )
        )
        assert {answer.code for answer in answers} == {ErrorCode.NONE}

    asyncio.run(scenario())
    assert len(hashed.threads) == tokens
    assert threading.get_ident() not in hashed.threads
    assert hashed.at_once_max == 1


def test_a_log_in_that_is_given_up_leaves_its_turn_to_the_next(hashed: Hashed) -> None:
    cluster = Cluster(2)
    hashes = Hashes(RealClock())
    hashed.is_held_up = lambda thread: thread != threading.main_thread().ident

    async def scenario() -> None:
        first, second, third = (
            asyncio.ensure_future(hashes.answer(cluster.dialogue(), client_of(name).first()))
            for name in ("token-0", "token-1", "token-1")
        )
        await asyncio.to_thread(hashed.has_begun.wait, PATIENCE_SECONDS)
        second.cancel()
        await asyncio.wait([second])
        hashed.may_go_on.set()
        assert (await first).code == (await third).code == ErrorCode.NONE

    asyncio.run(scenario())
    assert len(hashed.threads) == 2


def test_a_client_that_logs_in_again_is_hashed_off_the_loop_and_in_order(hashed: Hashed) -> None:
    """Where the credential was dropped since, for those of others."""
    cluster, clock = Cluster(1), RealClock()
    hashed.is_held_up = lambda thread: thread != threading.main_thread().ident
    alice = Principal(USER, "alice", True)

    async def scenario() -> None:
        session = Reauthentication(
            login=Login(principal=alice, mechanism=Mechanism.SCRAM_SHA_256, expires_ms=None),
            exchanges={Mechanism.SCRAM_SHA_256: cluster.exchange},
            session_of=lambda _: 60_000,
            hashes=Hashes(clock),
            failures=FailedLogins(listener="SASL_PLAINTEXT", clock=clock),
            failure_delay_ms=0,
            clock=clock,
            lifetime_ms=60_000,
            peer=Address(host="127.0.0.1", port=1),
        )
        later_ms = clock.monotonic_ms() + INTERVAL_MS_MIN
        client = client_of("token-0")
        handshake = framed(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        assert isinstance(session.answer(handshake, later_ms), list)
        waiting = session.answer(token_of(client.first()), later_ms)
        assert asyncio.iscoroutine(waiting)
        reply = asyncio.ensure_future(waiting)
        await asyncio.to_thread(hashed.has_begun.wait, PATIENCE_SECONDS)
        # Other requests have their answers; a token that did not wait for its turn has none.
        assert session.answer(framed(ApiVersionsRequest(), 0), later_ms) is None
        with pytest.raises(CloseConnection):
            session.answer(token_of(b"anything"), later_ms)
        hashed.may_go_on.set()
        final = client.respond(challenge_in(await reply))
        assert final is not None
        verdict = session.answer(token_of(final), later_ms)
        assert isinstance(verdict, list)
        client.respond(challenge_in(verdict))
        assert client.is_complete

    asyncio.run(scenario())


def token_of(data: bytes) -> memoryview:
    return framed(SaslAuthenticateRequest(auth_bytes=data), 2)


def framed(request: Message, version: int) -> memoryview:
    parts = encode_request(request, version=version, correlation_id=1, client_id="test")
    return memoryview(b"".join(part for part in parts if isinstance(part, bytes))[4:])


def challenge_in(parts: list[Any]) -> bytes:
    frame = memoryview(b"".join(parts)[4:])
    reply = decode_response(SaslAuthenticateResponse, 2, frame)
    assert reply.error_code == ErrorCode.NONE
    return bytes(reply.auth_bytes)
