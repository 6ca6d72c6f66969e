"""Apache Kafka with certificates of `penstock security init` and a user of `penstock users`, who
may log in by PLAIN and by bearer tokens as well.
"""

import os
import subprocess
from pathlib import Path

from rig.apache_kafka.broker import ApacheKafka
from rig.held_port import HeldPort
from rig.logins.java import ALLOWED_FILES, ALLOWED_URLS
from rig.logins.login import OAUTH_MODULE, Login, TokenIssuer
from rig.logins.secured import HOUR_SECONDS, MECHANISMS
from rig.sasl import SCRAM_MODULE, plain_users
from rig.served_cluster import PENSTOCK

COMMAND_SECONDS_MAX = 120
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class SecuredKafka:
    """A listener for log-ins over TLS, one for certificates, and one in plain text for itself."""

    def __init__(self, *, jars: Path, folder: Path) -> None:
        self.made = folder / "made"
        run_penstock("security", "init", str(self.made), "--client", "alice")
        self._tokens = TokenIssuer(folder)
        self._token = self._tokens.token("token", seconds=HOUR_SECONDS)
        ports = {name: HeldPort() for name in ("SASL_SSL", "SSL", "PLAINTEXT", "CONTROLLER")}
        self._ports = ports
        self.addresses = {name: port.address for name, port in ports.items()}
        listeners = [f"{name}://{address}" for name, address in self.addresses.items()]
        settings = {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners[:-1]),
            "controller.quorum.voters": f"1@{self.addresses['CONTROLLER']}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,PLAINTEXT:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.made / "node-1.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.made / "ca.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_users(),
            "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            **self._tokens.node_settings(),
            **{
                f"listener.name.sasl_ssl.{mechanism}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
                for mechanism in ("scram-sha-256", "scram-sha-512")
            },
        }
        home = folder / "kafka"
        home.mkdir()
        # It reads keys from a file that its process allows alone.
        keys = {ALLOWED_FILES: str(self._tokens.keys), ALLOWED_URLS: self._tokens.keys.as_uri()}
        self._kafka = ApacheKafka(jars=jars, folder=home, settings=settings, java_properties=keys)

    def start(self) -> None:
        self._kafka.start()
        run_penstock(
            *("users", "add", "alice", "--bootstrap", self.addresses["PLAINTEXT"]),
            PENSTOCK_USER_PASSWORD="alice-secret",
        )

    def stop(self) -> None:
        self._kafka.stop()

    def by_sasl(self, mechanism: str) -> Login:
        return Login(
            protocol="SASL_SSL",
            trusted=self.made / "ca.pem",
            mechanism=mechanism,
            token=self._token if mechanism == "OAUTHBEARER" else None,
        )

    def by_certificate(self) -> Login:
        return Login(
            protocol="SSL", trusted=self.made / "ca.pem", certificate=self.made / "alice.pem"
        )


def run_penstock(*arguments: str, input: str = "", **environment: str) -> str:
    """`penstock ...` as a process; what it printed; CommandFailed with its error."""
    run = subprocess.run(
        [PENSTOCK, *arguments],
        input=input,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        env={**os.environ, **environment},
    )
    if run.returncode != 0:
        raise CommandFailed(run.stderr)
    return run.stdout


class CommandFailed(Exception):
    """What a command said on standard error."""
