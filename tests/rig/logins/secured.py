"""A node and clusters that let nobody in without a log-in or a certificate."""

from dataclasses import replace
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.logins.login import PATIENCE_SECONDS, Login, TokenIssuer
from rig.running_node import RunningNode
from rig.sasl import PLAIN_MODULE, SCRAM_MODULE
from rig.served_cluster import ServedCluster
from rig.tls_files import TlsFiles

HOUR_SECONDS = 3600
TOKEN_SECRET = "the-secret-of-the-cluster"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USERS = {"node": "node-secret", "alice": "alice-secret"}
BRISK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
PLAIN_USERS = "".join(f' user_{name}="{password}"' for name, password in USERS.items())
PLAIN_JAAS = f'{PLAIN_MODULE} required username="node" password="node-secret"{PLAIN_USERS};'
LISTENERS = {
    "SASL_SSL": "SASL_SSL",
    "SSL": "SSL",
    "BOTH": "SASL_SSL",
    "NARROW": "SASL_SSL",
    "PLAINTEXT": "PLAINTEXT",
}
SCRAM_USERS = [
    f"{mechanism}=[name={name},password={password}]"
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for name, password in USERS.items()
]
SCRAM_JAAS = f'{SCRAM_MODULE} required username="node" password="node-secret";'


class Credentials:
    """What nodes and clients of one test show each other: an authority, passwords and tokens."""

    def __init__(self, folder: Path) -> None:
        self.files = TlsFiles(folder / "authority")
        self.foreign = TlsFiles(folder / "foreign")
        self.tokens = TokenIssuer(folder)
        self.token = self.tokens.token("token", seconds=HOUR_SECONDS)
        self.certificate = self.files.client("alice")

    def by_sasl(self, mechanism: str) -> Login:
        return Login(
            protocol="SASL_SSL",
            trusted=self.files.trusted,
            mechanism=mechanism,
            token=self.token if mechanism == "OAUTHBEARER" else None,
        )

    def of_nodes(self) -> Login:
        """The log-in of the nodes themselves, who are super users where there is an authorizer."""
        by_scram = self.by_sasl("SCRAM-SHA-512")
        return replace(by_scram, user="node", password=USERS["node"])

    def by_both(self, mechanism: str) -> Login:
        """With a certificate of another name than that of the user who logs in."""
        return replace(self.by_sasl(mechanism), certificate=self.files.client("machine"))

    def by_certificate(self) -> Login:
        return Login(protocol="SSL", trusted=self.files.trusted, certificate=self.certificate)

    def sasl_settings(self, *listeners: str) -> dict[str, str]:
        """All mechanisms at listeners of these names; nodes log in by two of them."""
        return {
            **self.files.node_settings(),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **self.tokens.node_settings(),
            **{f"listener.name.{one}.plain.sasl.jaas.config": PLAIN_JAAS for one in listeners},
            **{
                f"listener.name.{one}.scram-sha-512.sasl.jaas.config": SCRAM_JAAS
                for one in listeners
            },
        }


class SecuredNode:
    """One node with a listener for log-ins, one for certificates, one for both together, and one
    for PLAIN alone. Settings are keywords with underscores for dots.
    """

    def __init__(self, data: Path, credentials: Credentials, **settings: str) -> None:
        self.running = RunningNode(
            data,
            {
                "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
                "listener.security.protocol.map": ",".join(map(":".join, LISTENERS.items())),
                **credentials.sasl_settings("sasl_ssl", "both", "narrow"),
                "listener.name.ssl.ssl.client.auth": "required",
                "listener.name.both.ssl.client.auth": "required",
                "listener.name.narrow.sasl.enabled.mechanisms": "PLAIN",
                **BRISK,
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )
        self.running.start()
        by_name = self.running.node.addresses_by_listener
        self.addresses = {name: str(address) for name, address in by_name.items()}
        self._add_scram_users()

    def stop(self) -> None:
        self.running.stop()

    def _add_scram_users(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.addresses["PLAINTEXT"]})
        altered = admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(
                    "alice", ScramCredentialInfo(kind, 4096), USERS["alice"].encode()
                )
                for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
            ]
        )
        for done in altered.values():
            done.result(PATIENCE_SECONDS)


def sasl_cluster(data: Path, credentials: Credentials, **settings: str) -> ServedCluster:
    """Three nodes that speak SASL_SSL with clients and with each other: brokers log in by SCRAM,
    controllers by PLAIN. Settings are keywords with underscores for dots.
    """
    return ServedCluster(
        data,
        changed={
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
            **credentials.sasl_settings("plaintext", "controller"),
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **BRISK,
            **{name.replace("_", "."): value for name, value in settings.items()},
        },
        users=SCRAM_USERS,
    )


def authorised_cluster(data: Path, credentials: Credentials) -> ServedCluster:
    """The same with an authorizer, by which nobody but the nodes has a right, and with tokens."""
    return sasl_cluster(
        data,
        credentials,
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:node",
        delegation_token_secret_key=TOKEN_SECRET,
    )


def certificate_cluster(data: Path, credentials: Credentials, **settings: str) -> ServedCluster:
    """Three nodes that ask clients and each other for certificates, and know users for SCRAM.
    Settings are keywords with underscores for dots.
    """
    return ServedCluster(
        data,
        changed={
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
            **credentials.files.node_settings(clients="required"),
            **BRISK,
            **{name.replace("_", "."): value for name, value in settings.items()},
        },
        users=SCRAM_USERS,
    )
