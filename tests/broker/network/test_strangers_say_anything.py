"""Whatever a client sends before it is logged in: nobody is let in by it, it ends in bounded time,
and others are served meanwhile. How long it took and how much it held is printed (`pytest -rP`).
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import psutil
import pytest
from joserfc.jwk import RSAKey

from penstock.broker.network.authentication import Authentication
from penstock.broker.network.budget import Budget
from penstock.broker.network.dispatch import Dispatch
from penstock.broker.network.identity import ConnectionIdentity
from penstock.model.limit import AUTHENTICATION_MS_MAX, UNAUTHENTICATED_BYTES_HELD_MAX
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.security.sasl.exchange import ServerExchange
from penstock.security.sasl.json_web_token import ExpectedClaims, TokenKeys
from penstock.security.sasl.oauthbearer import OauthBearerServer
from penstock.security.sasl.plain import PlainServer
from penstock.security.sasl.scram_credential import new_credential
from penstock.security.sasl.scram_server import ScramServer
from penstock.wire.header import encode_request
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from penstock.world.clock import RealClock
from penstock.world.errors import NetworkError
from penstock.world.ports import Address, Buffer, FileRange
from rig.services import Broker

FRAME_BYTES_MAX = 4096
LARGE_FRAME_BYTES = 64 * 1024
CLOSED_SECONDS_MAX = AUTHENTICATION_MS_MAX / 1000 + 2
MIB = 1024 * 1024
GROWN_MIB_MAX = 16
ALICE = b"\0alice\0alice-secret"
CREDENTIAL = new_credential(ScramMechanism.SCRAM_SHA_256, "alice-secret", salt=b"salt")

KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
KEYS = TokenKeys(
    json.dumps({"keys": [KEY.as_dict(private=False)]}).encode(),
    ExpectedClaims(issuer=None, audiences=()),
)


class Script:
    """A stream on which everything has been said already, in pieces of random size."""

    peer = Address(host="127.0.0.1", port=1)
    piece_bytes_max = 64

    def __init__(self, said: bytes, chance: random.Random) -> None:
        self._said = said
        self._chance = chance
        self.is_closed = False
        self.heard = 0

    async def receive_into(self, view: memoryview) -> int:
        count = min(len(self._said), len(view), self._chance.randint(1, self.piece_bytes_max))
        view[:count] = self._said[:count]
        self._said = self._said[count:]
        return count

    async def send(self, buffers: Sequence[Buffer], *, more: bool = False) -> None:
        if self.is_closed:
            raise NetworkError("closed")
        self.heard += sum(map(len, buffers))

    def send_now(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        raise AssertionError("log-ins wait for the network")

    async def send_file(self, span: FileRange) -> None:
        raise AssertionError("log-ins have no files")

    def close(self) -> None:
        self.is_closed = True


def exchanges() -> dict[Mechanism, Callable[[], ServerExchange]]:
    return {
        Mechanism.PLAIN: lambda: PlainServer({"alice": "alice-secret"}),
        Mechanism.SCRAM_SHA_256: lambda: ScramServer(
            ScramMechanism.SCRAM_SHA_256,
            {"alice": CREDENTIAL}.get,
            nonce="nonce",
            decoy_key=b"decoy",
        ),
        Mechanism.OAUTHBEARER: lambda: OauthBearerServer(KEYS),
    }


def request(message: SaslHandshakeRequest | SaslAuthenticateRequest, version: int) -> bytes:
    parts = encode_request(message, version=version, correlation_id=1, client_id="c")
    return b"".join(part for part in parts if isinstance(part, bytes))


def good_parts() -> list[bytes]:
    return [
        request(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        request(SaslHandshakeRequest(mechanism="PLAIN"), 0),
        request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
        request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1),
        request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2),
        request(SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer e30.e30.AA\x01\x01"), 2),
        request(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2),
        request(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abcnonce,p=AAAA"), 1),
        request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2),
        (3).to_bytes(4, "big") + b"\0a\0",
    ]


def nonsense(chance: random.Random) -> bytes:
    """Good requests in any order, cut, doubled and with bytes changed; never the right password."""
    said = b"".join(chance.choices(good_parts(), k=chance.randint(1, 6)))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(said) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            said = said[:at]
        elif kind == 1:
            said = said[:at] + chance.randbytes(chance.randint(1, 40)) + said[at:]
        elif kind == 2 and at < len(said):
            said = said[:at] + bytes([chance.randrange(256)]) + said[at + 1 :]
        else:
            said = said[:at] + said[chance.randrange(at, len(said) + 1) :]
    return said


def listen(
    broker: Broker, budget: Budget, *, frame_bytes_max: int = FRAME_BYTES_MAX
) -> Callable[[Script], Coroutine[Any, Any, ConnectionIdentity | None]]:
    authentication = Authentication(
        listener="SASL_PLAINTEXT",
        exchanges=exchanges(),
        reauthentication_ms_max={},
        frame_bytes_max=frame_bytes_max,
        failure_delay_ms=0,
        clock=RealClock(),
    )
    dispatch = Dispatch(broker.services, (), listener="SASL_PLAINTEXT")

    async def log_in(script: Script) -> ConnectionIdentity | None:
        return await authentication.log_in(script, dispatch, budget)

    return log_in


@pytest.mark.parametrize("seed", range(8))
def test_nonsense_lets_nobody_in_and_holds_nothing(seed: int, broker: Broker) -> None:
    chance = random.Random(seed)

    async def scenario() -> None:
        budget = Budget(UNAUTHENTICATED_BYTES_HELD_MAX)
        log_in = listen(broker, budget)
        longest_seconds, before_mib = 0.0, resident_mib()
        for _ in range(250):
            said, since = nonsense(chance), time.monotonic()
            async with asyncio.timeout(CLOSED_SECONDS_MAX):
                assert await log_in(Script(said, chance)) is None, said
            longest_seconds = max(longest_seconds, time.monotonic() - since)
            assert budget.held_bytes == 0
        grown_mib = resident_mib() - before_mib
        print(f"ended within {longest_seconds:.3f} s, {grown_mib:+.1f} MiB")
        assert grown_mib < GROWN_MIB_MAX

    asyncio.run(scenario())


def resident_mib() -> float:
    return float(psutil.Process().memory_info().rss / MIB)


def test_the_right_words_among_them_let_alice_in(broker: Broker) -> None:
    async def scenario() -> None:
        log_in = listen(broker, Budget(UNAUTHENTICATED_BYTES_HELD_MAX))
        said = request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        said += request(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        identity = await log_in(Script(said, random.Random(1)))
        assert isinstance(identity, ConnectionIdentity)
        assert str(identity.principal) == "User:alice"

    asyncio.run(scenario())


def test_a_size_alone_sets_no_memory_aside_beyond_the_bound(broker: Broker) -> None:
    async def scenario() -> None:
        budget = Budget(UNAUTHENTICATED_BYTES_HELD_MAX)
        log_in = listen(broker, budget)
        for size in (2**31 - 1, FRAME_BYTES_MAX + 1):
            script = Script(size.to_bytes(4, "big") + bytes(100), random.Random(1))
            assert await log_in(script) is None
        assert budget.held_bytes == 0

    asyncio.run(scenario())


class Silence(Script):
    """Said a part of a frame, and does not go on."""

    piece_bytes_max = 8000

    async def receive_into(self, view: memoryview) -> int:
        if not self._said:
            await asyncio.Event().wait()
        return await super().receive_into(view)


@pytest.mark.parametrize("sent_bytes", [0, 1000, LARGE_FRAME_BYTES - 1])
def test_strangers_who_do_not_finish_their_frames_keep_nobody_from_logging_in(
    sent_bytes: int, broker: Broker
) -> None:
    async def scenario() -> None:
        budget = Budget(10 * LARGE_FRAME_BYTES)
        log_in = listen(broker, budget, frame_bytes_max=LARGE_FRAME_BYTES)
        begun = LARGE_FRAME_BYTES.to_bytes(4, "big") + bytes(sent_bytes)
        async with asyncio.TaskGroup() as group:
            strangers = [
                group.create_task(log_in(Silence(begun, random.Random(1)))) for _ in range(50)
            ]
            for _ in range(200):  # until all of them have said what they have to say
                await asyncio.sleep(0)
            said = request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            said += request(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
            identity = await log_in(Script(said, random.Random(1)))
            assert isinstance(identity, ConnectionIdentity)
            assert not any(stranger.done() for stranger in strangers)
            assert budget.held_bytes <= 11 * LARGE_FRAME_BYTES
            for stranger in strangers:
                stranger.cancel()
        assert budget.held_bytes == 0

    asyncio.run(scenario())
