"""A secured node of ours and a secured Apache Kafka: the same settings and the same certificates.

Each has four listeners. That in plain text is for the bench itself and for reference, at SSL
clients show a certificate, at SASL_PLAINTEXT and SASL_SSL they log in as `USER`. The certificates
are made by `penstock security init`; everything encrypted is TLS 1.3.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from asking import Asking, Refused
from brokers import HOST, ApacheKafka, LoneBroker, Penstock, Protection, kafka_jars
from rich.console import Console

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.security.acl.entry import Acl
from penstock.security.acl.messages import creation_of
from penstock.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse

USER, PASSWORD = "alice", "alice-secret"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM)
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# The bench itself talks in plain text, as nobody.
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
COMMAND_SECONDS_MAX = 60
CREATE_ACLS_VERSION = 3
ACLS_OF_A_REQUEST = 500


def penstock_command(*arguments: str, **environment: str) -> None:
    command = [str(Path(sys.executable).with_name("penstock")), *arguments]
    ended = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
    )
    if ended.returncode:
        raise SystemExit(f"penstock {arguments[0]} {arguments[1]}: {ended.stderr.strip()}")


def protection_in(folder: Path) -> Protection:
    """Makes the certificates, in a folder that is not there yet."""
    penstock_command("security", "init", str(folder), "--host", HOST, "--host", "localhost")
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node-1.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.enabled.protocols": "TLSv1.3",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        )
        for mechanism in SCRAM:
            settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    trusting = {"ca": folder / "ca.pem"}
    login = login_options("PLAIN")
    return Protection(
        settings=settings,
        load_options={
            "PLAINTEXT": {},
            "SSL": {**trusting, "certificate": folder / "client.pem"},
            "SASL_PLAINTEXT": login,
            "SASL_SSL": {**trusting, **login},
        },
    )


def login_options(mechanism: str, *, password: str = PASSWORD) -> dict[str, object]:
    """What the load program is told about a log-in."""
    return {"mechanism": mechanism, "user": USER, "password": password}


def add_user(broker: LoneBroker) -> None:
    """Lets the user log in by SCRAM; by PLAIN it can from the start."""
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    arguments = ("users", "add", USER, "--bootstrap", bootstrap)
    penstock_command(*arguments, PENSTOCK_USER_PASSWORD=PASSWORD)


def add_acls(broker: LoneBroker, acls: Sequence[Acl]) -> None:
    with Asking(broker.address) as asking:
        for start in range(0, len(acls), ACLS_OF_A_REQUEST):
            creations = [creation_of(acl) for acl in acls[start : start + ACLS_OF_A_REQUEST]]
            request = CreateAclsRequest(creations=creations)
            reply = asking.ask(request, CreateAclsResponse, CREATE_ACLS_VERSION)
            refused = [result for result in reply.results if result.error_code]
            if refused:
                raise Refused(f"an ACL: error {refused[0].error_code}, {refused[0].error_message}")


def secured_brokers(
    folder: Path, *, only: str | None, settings: dict[str, str], console: Console
) -> list[LoneBroker]:
    """Ours, and Apache Kafka where it is wanted and there; none of them started."""
    protection = protection_in(folder / "certificates")
    brokers: list[LoneBroker] = []
    if only != "kafka":
        brokers.append(Penstock(folder / "penstock", settings=settings, protection=protection))
    if only != "penstock":
        jars = kafka_jars()
        if isinstance(jars, str):
            console.print(f"[yellow]without Apache Kafka beside it: {jars}")
        else:
            brokers.append(ApacheKafka(folder / "kafka", jars=jars, protection=protection))
    if not brokers:
        raise SystemExit("no broker to measure")
    return brokers
