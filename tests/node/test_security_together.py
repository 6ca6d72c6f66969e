"""Encryption, log-ins or certificates, and access control on the same listeners."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.alert_reports import read_reports
from penstock.client.network.client_security import client_security
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.errors import Refused
from penstock.client.network.secured_network import secured_network
from penstock.client.produce.producer import Producer
from penstock.model.error import ErrorCode
from penstock.model.settings.alerts import ALERTS_TOPIC
from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.ports import Address
from penstock.world.tcp import TcpNetwork
from rig.node_cluster import node_cluster
from rig.sasl import plain_users
from rig.tls_files import TlsFiles

WAIT_S_MAX = 120
LISTENERS = ("plaintext", "controller")  # names of the layout, whatever they speak


def by_certificate(files: TlsFiles) -> dict[str, str]:
    """Nodes and clients are known by their certificates."""
    return {
        **files.node_settings(clients="required"),
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:admin",
    }


def by_log_in(files: TlsFiles) -> dict[str, str]:
    """Nodes and clients log in over TLS, and have no certificates to show."""
    users = {name: f"{name}-secret" for name in ("node", "admin", "alice")}
    jaas = plain_users(users, own="node")
    return {
        **files.node_settings(),
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in LISTENERS},
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node;User:admin",
    }


def client(files: TlsFiles, protocol: str, user: str, address: Address) -> Cluster:
    options: Mapping[str, str] = {
        "security.protocol": protocol,
        **files.client_settings(user if protocol == "SSL" else None),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }
    security = client_security(
        options, random_bytes=RealEntropy().random_bytes, read_file=lambda path: path
    )
    rules = ClusterRules(reach_ms_max=30_000, security=security)
    network = secured_network(options, TcpNetwork(), RealDisk())
    return Cluster(network, RealClock(), [address], rules=rules)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_nodes_write_their_alerts_as_their_own_principal(tmp_path: Path, protocol: str) -> None:
    files = TlsFiles(tmp_path / "authority")
    settings = {
        **(by_certificate(files) if protocol == "SSL" else by_log_in(files)),
        "penstock.alerts.enable": "true",
        "penstock.alerts.interval.ms": "100",
        "penstock.alerts.for.ms": "0",
        "penstock.alerts.disk.ratio": "0",  # every disk is fuller than that
    }

    async def scenario() -> None:
        async with (
            node_cluster(tmp_path / "nodes", 3, changed=settings) as nodes,
            client(files, protocol, "admin", nodes.address(3)) as admin,
            asyncio.timeout(WAIT_S_MAX),
        ):
            told: set[int] = set()
            while told != {1, 2, 3}:
                with contextlib.suppress(Refused):
                    reports = await read_reports(admin, ALERTS_TOPIC)
                    told = {one.node for one in reports.values()}

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_nodes_replicate_as_their_own_principal_and_others_have_no_rights(
    tmp_path: Path, protocol: str
) -> None:
    files = TlsFiles(tmp_path / "authority")
    settings = by_certificate(files) if protocol == "SSL" else by_log_in(files)
    topic = NewTopic(name="orders", partitions=1, replicas=3)

    async def scenario() -> None:
        async with node_cluster(tmp_path / "nodes", 3, changed=settings) as nodes:
            async with client(files, protocol, "alice", nodes.address(2)) as alice:
                with pytest.raises(Refused) as refused:
                    first_refusal((await Admin(alice).create_topics([topic])).values())
                assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            async with client(files, protocol, "admin", nodes.address(3)) as admin:
                first_refusal((await Admin(admin).create_topics([topic])).values())
                # Acked by all in sync: the followers were allowed to fetch.
                async with Producer(admin) as producer:
                    await producer.send("orders", b"record", partition=0)

    asyncio.run(scenario())
