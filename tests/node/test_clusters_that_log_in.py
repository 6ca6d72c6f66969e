"""Nodes that log in at each other, as brokers and as controllers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.users import set_password
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import ClientError
from penstock.client.network.login_kinds import password_login
from penstock.client.network.security import ClientSecurity
from penstock.client.produce.producer import Producer
from penstock.metadata.bootstrap_files import BOOTSTRAP_FILE, bootstrap_checkpoint, first_records
from penstock.metadata.image.scram import ScramUser
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.sasl import Mechanism, ScramMechanism
from penstock.model.settings.listener import SecurityProtocol
from penstock.model.settings.setting import InvalidSetting
from penstock.node.first_users import parse_user
from penstock.security.sasl.scram_client import SaltedPasswords, ScramClient
from penstock.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Address
from penstock.world.real import real_world
from rig.dialogue import Dialogue
from rig.node_cluster import NodeCluster
from rig.sasl import PLAIN_MODULE, SCRAM_MODULE, plain_users

LISTENERS = ("plaintext", "controller")  # names of the layout, whatever they speak
MAP = "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"


def plain(own_password: str = "admin-secret") -> dict[str, str]:
    jaas = plain_users(own="admin").replace(
        'password="admin-secret"', f'password="{own_password}"', 1
    )
    return {
        "listener.security.protocol.map": MAP,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in LISTENERS},
    }


def scram(mechanism: Mechanism) -> dict[str, str]:
    jaas = f'{SCRAM_MODULE} required username="admin" password="admin-secret";'
    return {
        "listener.security.protocol.map": MAP,
        "sasl.enabled.mechanisms": str(mechanism),
        "sasl.mechanism.inter.broker.protocol": str(mechanism),
        "sasl.mechanism.controller.protocol": str(mechanism),
        **{
            f"listener.name.{name}.{str(mechanism).lower()}.sasl.jaas.config": jaas
            for name in LISTENERS
        },
    }


def secured(path: Path, settings: Mapping[str, str], *users: str) -> NodeCluster:
    cluster = NodeCluster(path, 3)
    cluster.change_settings(settings)
    records = [parse_user(user, random_bytes=RealEntropy().random_bytes) for user in users]
    for number in (1, 2, 3):
        file = cluster.metadata_directory(number) / BOOTSTRAP_FILE
        first = first_records(min_insync_replicas="2", users=records)
        file.write_bytes(bootstrap_checkpoint(first, now_ms=1))
    return cluster


def client(cluster: NodeCluster, mechanism: Mechanism, password: str = "admin-secret") -> Cluster:
    world = real_world(inline=True)
    login = password_login(
        mechanism, user="admin", password=password, random_bytes=world.entropy.random_bytes
    )
    rules = ClusterRules(
        reach_ms_max=30_000,
        security=ClientSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, login=login),
    )
    addresses = [cluster.address(number) for number in cluster.running]
    return Cluster(world.network, world.clock, addresses, rules=rules)


async def use(cluster: NodeCluster, mechanism: Mechanism, topic: str) -> None:
    """A topic with three replicas is made and written to, acked by all in sync."""
    async with client(cluster, mechanism) as connected:
        made = NewTopic(name=topic, partitions=3, replicas=3)
        first_refusal((await Admin(connected).create_topics([made])).values())
        async with Producer(connected) as producer:
            for number in range(30):
                await producer.send(topic, b"%d" % number, partition=number % 3)


@pytest.mark.parametrize(
    ("mechanism", "settings", "users"),
    [
        (Mechanism.PLAIN, plain(), ()),
        (
            Mechanism.SCRAM_SHA_512,
            scram(Mechanism.SCRAM_SHA_512),
            ("SCRAM-SHA-512=[name=admin,password=admin-secret]",),
        ),
    ],
    ids=["PLAIN", "SCRAM-SHA-512"],
)
def test_a_cluster_secured_inside_elects_replicates_and_survives_a_kill(
    tmp_path: Path, mechanism: Mechanism, settings: dict[str, str], users: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        cluster = secured(tmp_path, settings, *users)
        await cluster.start(1, 2, 3)
        try:
            await use(cluster, mechanism, "before")
            active = await cluster.active()
            await cluster.kill(active)
            await cluster.start(active)
            await cluster.until(
                lambda image: all(
                    len(partition.isr) == 3
                    for partition in image.topics_by_name["before"].partitions
                )
            )
            await use(cluster, mechanism, "after")
        finally:
            for number in list(cluster.running):
                await cluster.kill(number)

    asyncio.run(scenario())


def test_a_node_with_a_wrong_password_does_not_join_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = secured(tmp_path, plain())
        cluster.change_settings(plain("wrong"), 3)
        await cluster.start(1, 2)
        stranger = asyncio.create_task(cluster.start(3))
        try:
            await use_two(cluster)
            assert not stranger.done()
            assert NodeId(3) not in cluster.inside(1).local.image.brokers
        finally:
            stranger.cancel()
            await asyncio.gather(stranger, return_exceptions=True)
            for number in list(cluster.running):
                await cluster.kill(number)

    asyncio.run(scenario())


def test_a_first_password_that_was_changed_does_not_count_after_a_restart(tmp_path: Path) -> None:
    """At the listener of controllers, while this one alone runs: it does not know yet what of its
    log is committed.
    """
    mechanism = Mechanism.SCRAM_SHA_512
    users = [f"{mechanism}=[name={name},password={name}-secret]" for name in ("admin", "alice")]
    asked = ScramUser("alice", ScramMechanism.SCRAM_SHA_512)

    async def scenario() -> None:
        cluster = secured(tmp_path, scram(mechanism), *users)
        await cluster.start(1, 2, 3)
        first = cluster.inside(1).local.image.scram_credentials[asked]
        async with client(cluster, mechanism) as connected:
            await set_password(
                connected,
                "alice",
                "changed",
                [ScramMechanism.SCRAM_SHA_512],
                random_bytes=RealEntropy().random_bytes,
            )
        await cluster.until(lambda image: image.scram_credentials[asked] != first)
        listening = cluster.inside(1).local.quorum.address_of(NodeId(1))
        assert listening is not None
        for number in (1, 2, 3):
            await cluster.stop(number)
        alone = asyncio.create_task(cluster.start(1))
        try:
            while not await lets_in(listening, "admin", "admin-secret"):
                assert not alone.done()
            assert not await lets_in(listening, "alice", "alice-secret")
            assert await lets_in(listening, "alice", "changed")
            await cluster.start(2)
            await alone
        finally:
            alone.cancel()
            await asyncio.gather(alone, return_exceptions=True)
            for number in list(cluster.running):
                await cluster.kill(number)

    asyncio.run(scenario())


async def lets_in(address: Address, user: str, password: str) -> bool:
    return await asyncio.to_thread(_lets_in, address, user, password)


def _lets_in(address: Address, user: str, password: str) -> bool:
    passwords = SaltedPasswords(ScramMechanism.SCRAM_SHA_512, password)
    exchange = ScramClient(user, passwords, nonce="nonce-of-the-test")
    try:
        talk = Dialogue(str(address), "unused")
    except OSError:
        return False  # it does not listen yet
    talk.exchange(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), version=1)
    sent: bytes | None = exchange.first()
    code = ErrorCode.NONE
    while sent is not None and code == ErrorCode.NONE:
        reply = talk.exchange(SaslAuthenticateRequest(auth_bytes=sent), version=2)
        code = ErrorCode(reply.error_code)
        sent = exchange.respond(bytes(reply.auth_bytes)) if code == ErrorCode.NONE else None
    talk.close()
    return exchange.is_complete


async def use_two(cluster: NodeCluster) -> None:
    async with client(cluster, Mechanism.PLAIN) as connected:
        made = NewTopic(name="orders", partitions=2, replicas=2)
        first_refusal((await Admin(connected).create_topics([made])).values())
        async with Producer(connected) as producer:
            for number in range(20):
                await producer.send("orders", b"%d" % number, partition=number % 2)


def test_clients_without_the_password_learn_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = secured(tmp_path, plain())
        await cluster.start(1, 2, 3)
        try:
            async with client(cluster, Mechanism.PLAIN, "wrong") as connected:
                with pytest.raises(ClientError):
                    await connected.refresh_all()
        finally:
            for number in list(cluster.running):
                await cluster.kill(number)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "inter.broker.protocol"),
        ({"sasl.mechanism.controller.protocol": "OAUTHBEARER"}, "controller.protocol"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms"),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required a="b";'},
            "username",
        ),
        ({"listener.name.controller.plain.sasl.jaas.config": "s3cret"}, "end in a semicolon"),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f'{SCRAM_MODULE} required a="b";'},
            "PlainLoginModule",
        ),
    ],
)
def test_settings_by_which_nodes_could_not_log_in_are_refused(
    tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    cluster = NodeCluster(tmp_path, 3)
    with pytest.raises(InvalidSetting, match=said) as refused:
        cluster.change_settings({**plain(), **changed})
    assert "s3cret" not in str(refused.value)
