"""Log-ins over a connection: who is let in, who is not, and what strangers may ask for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.client.network.channel import open_channel
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import AuthenticationFailed, ClientError
from penstock.client.network.login_kinds import password_login
from penstock.client.network.sasl_login import SaslLogin
from penstock.client.network.security import ClientSecurity
from penstock.model.error import ErrorCode
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.model.settings.listener import SecurityProtocol
from penstock.security.sasl.scram_credential import salted_password
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.world.clock import RealClock
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Address
from penstock.world.tasks import TaskGroup
from penstock.world.tcp import TcpNetwork
from rig.running_node import RunningNode
from rig.sasl import USERS, sasl_listener

WAIT_S = 60
ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Raw:
    """A client that says what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, request: object, *, version: int) -> None:
        parts = encode_request(request, version=version, correlation_id=7, client_id="raw")  # type: ignore[arg-type]
        self.writer.write(b"".join(part for part in parts if isinstance(part, bytes)))

    async def frame(self) -> bytes:
        """The next one; nothing when the node has closed."""
        try:
            async with asyncio.timeout(WAIT_S):
                size = int.from_bytes(await self.reader.readexactly(4), "big")
                return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return b""

    async def handshake(self, mechanism: str, *, version: int = 1) -> SaslHandshakeResponse:
        await self.send(SaslHandshakeRequest(mechanism=mechanism), version=version)
        return decode_response(SaslHandshakeResponse, version, memoryview(await self.frame()))

    async def token(self, token: bytes, *, version: int = 2) -> SaslAuthenticateResponse:
        await self.send(SaslAuthenticateRequest(auth_bytes=token), version=version)
        return decode_response(SaslAuthenticateResponse, version, memoryview(await self.frame()))

    async def metadata(self) -> bool:
        """Whether it is answered."""
        await self.send(MetadataRequest(topics=[]), version=9)
        return bool(await self.frame())


def on_node(
    data: Path, settings: dict[str, str], scenario: Callable[[RunningNode], Awaitable[None]]
) -> None:
    node = RunningNode(data, settings)
    node.start()
    try:

        async def run() -> None:
            await scenario(node)

        node.run(run())
    finally:
        node.stop()


async def raw(node: RunningNode) -> Raw:
    address = node.node.addresses_by_listener["SASL_PLAINTEXT"]
    return Raw(*await asyncio.open_connection(address.host, address.port))


def login(user: str, password: str, mechanism: Mechanism = Mechanism.PLAIN) -> SaslLogin:
    return password_login(
        mechanism, user=user, password=password, random_bytes=RealEntropy().random_bytes
    )


async def set_password(node: RunningNode, user: str, password: str, kind: ScramMechanism) -> None:
    salt = b"salt of the test"
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=kind,
        iterations=4096,
        salt=salt,
        salted_password=salted_password(kind, password, salt=salt, iterations=4096),
    )
    plain = node.node.addresses_by_listener["PLAINTEXT"]
    async with TaskGroup() as tasks:
        channel = await open_channel(
            TcpNetwork(), plain, client_id="admin", tasks=tasks, timeout_ms=WAIT_S * 1000
        )
        reply = await channel.ask(
            AlterUserScramCredentialsRequest(upsertions=[upsertion]),
            AlterUserScramCredentialsResponse,
            timeout_ms=WAIT_S * 1000,
        )
        channel.close()
    assert [result.error_code for result in reply.results] == [0]


async def asked(address: Address, one: SaslLogin | None) -> MetadataResponse:
    async with TaskGroup() as tasks:
        channel = await open_channel(
            TcpNetwork(),
            address,
            client_id="test",
            tasks=tasks,
            timeout_ms=WAIT_S * 1000,
            login=one,
        )
        try:
            return await channel.ask(
                MetadataRequest(topics=[]), MetadataResponse, timeout_ms=WAIT_S * 1000
            )
        finally:
            channel.close()


def test_users_are_let_in_by_each_mechanism_and_nobody_else(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        address = node.node.addresses_by_listener["SASL_PLAINTEXT"]
        for kind in ScramMechanism:
            await set_password(node, "bob", "bob-secret", kind)
        await asked(address, login("alice", USERS["alice"]))
        for kind in ScramMechanism:
            await asked(address, login("bob", "bob-secret", kind.mechanism))
            with pytest.raises(AuthenticationFailed, match="invalid credentials"):
                await asked(address, login("bob", "wrong", kind.mechanism))
            with pytest.raises(AuthenticationFailed, match="invalid credentials"):
                await asked(address, login("nobody", "bob-secret", kind.mechanism))
        with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
            await asked(address, login("alice", "wrong"))
        with pytest.raises(ClientError):
            await asked(address, None)

    on_node(tmp_path, sasl_listener(*ALL), scenario)


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        reply = await client.handshake("SCRAM-SHA-256")
        assert reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert reply.mechanisms == ["PLAIN"]
        assert await client.frame() == b""

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_strangers_may_ask_for_versions_and_for_nothing_else(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        for version in (3, 0, 3):
            await client.send(
                ApiVersionsRequest(client_software_name="a", client_software_version="1"),
                version=version,
            )
            reply = decode_response(ApiVersionsResponse, version, memoryview(await client.frame()))
            assert reply.error_code == 0
        assert not await client.metadata()

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_a_token_before_the_handshake_is_an_illegal_state(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        reply = await client.token(b"\0alice\0alice-secret")
        assert reply.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.frame() == b""

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_bare_tokens_follow_a_handshake_of_version_0(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        for token, is_let_in in ((b"\0alice\0alice-secret", True), (b"\0alice\0wrong", False)):
            client = await raw(node)
            assert (await client.handshake("PLAIN", version=0)).error_code == 0
            client.writer.write(len(token).to_bytes(4, "big") + token)
            if is_let_in:
                assert await client.reader.readexactly(4) == bytes(4)
            else:
                assert await client.frame() == b""
            assert await client.metadata() == is_let_in

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_whoever_is_logged_in_cannot_log_in_once_more(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        assert (await client.token(b"\0alice\0alice-secret")).session_lifetime_ms == 0
        assert (await client.handshake("PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.token(b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.metadata()

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_a_large_frame_of_a_stranger_closes_the_connection(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        client.writer.write((2048).to_bytes(4, "big") + bytes(2048))
        assert await client.frame() == b""

    settings = sasl_listener("PLAIN", sasl_server_max_receive_size="1024")
    on_node(tmp_path, settings, scenario)


def test_a_client_that_says_nothing_is_closed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.model.limit.AUTHENTICATION_MS_MAX", 200)

    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        assert await client.frame() == b""

    on_node(tmp_path, sasl_listener("PLAIN"), scenario)


def test_the_reply_to_a_failure_is_held_back(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        began_ms = RealClock().monotonic_ms()
        reply = await client.token(b"\0alice\0wrong")
        assert RealClock().monotonic_ms() - began_ms >= 299
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.frame() == b""

    settings = sasl_listener("PLAIN", connection_failed_authentication_delay_ms="300")
    on_node(tmp_path, settings, scenario)


def test_failures_are_logged_without_names_and_passwords(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        await client.token(b"\0somebody\0in-the-clear")

    with caplog.at_level(logging.INFO):
        on_node(tmp_path, sasl_listener("PLAIN"), scenario)
    lines = [line for line in caplog.messages if "authentication failed" in line]
    assert len(lines) == 1
    assert "listener=SASL_PLAINTEXT mechanism=PLAIN" in lines[0]
    assert not any("in-the-clear" in line or "somebody" in line for line in caplog.messages)


def test_a_session_that_ends_is_continued_by_a_second_log_in(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        reply = await client.token(b"\0alice\0alice-secret")
        assert reply.session_lifetime_ms == 60_000
        early = await client.handshake("PLAIN")
        assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await asyncio.sleep(1.1)  # a second log-in is not heard sooner
        assert (await client.handshake("PLAIN")).error_code == 0
        assert await client.metadata()
        again = await client.token(b"\0alice\0alice-secret")
        assert (again.error_code, again.session_lifetime_ms) == (0, 60_000)
        assert await client.metadata()

    settings = sasl_listener("PLAIN", connections_max_reauth_ms="60000")
    on_node(tmp_path, settings, scenario)


def test_another_user_cannot_take_a_session_over(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        await client.token(b"\0alice\0alice-secret")
        await asyncio.sleep(1.1)  # a second log-in is not heard sooner
        await client.handshake("PLAIN")
        reply = await client.token(b"\0admin\0admin-secret")
        assert reply.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not await client.metadata()

    settings = sasl_listener("PLAIN", connections_max_reauth_ms="60000")
    on_node(tmp_path, settings, scenario)


def test_requests_after_the_end_of_a_session_close_the_connection(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        client = await raw(node)
        await client.handshake("PLAIN")
        await client.token(b"\0alice\0alice-secret")
        assert await client.metadata()
        await asyncio.sleep(0.6)  # the session lasts for half a second
        assert not await client.metadata()

    settings = sasl_listener("PLAIN", connections_max_reauth_ms="500")
    on_node(tmp_path, settings, scenario)


def test_our_client_goes_on_when_its_sessions_end(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        rules = ClusterRules(
            security=ClientSecurity(
                protocol=SecurityProtocol.SASL_PLAINTEXT, login=login("alice", USERS["alice"])
            )
        )
        address = node.node.addresses_by_listener["SASL_PLAINTEXT"]
        async with Cluster(TcpNetwork(), RealClock(), [address], rules=rules) as cluster:
            first = await cluster.any_channel()
            until_ms = RealClock().monotonic_ms() + 1500
            while RealClock().monotonic_ms() < until_ms:
                await cluster.refresh()
            assert not first.is_open

    settings = sasl_listener("PLAIN", connections_max_reauth_ms="400")
    on_node(tmp_path, settings, scenario)


def test_strangers_count_among_the_connections_of_their_address(tmp_path: Path) -> None:
    async def scenario(node: RunningNode) -> None:
        first, second = await raw(node), await raw(node)
        await first.handshake("PLAIN")
        await second.handshake("PLAIN")
        third = await raw(node)
        assert await third.frame() == b""
        assert (await first.token(b"\0alice\0alice-secret")).error_code == 0
        assert await first.metadata()

    on_node(tmp_path, sasl_listener("PLAIN", max_connections_per_ip="2"), scenario)
