"""Apache Kafka's `kafka-acls`, `kafka-configs` and `kafka-delegation-tokens` get in over TLS, by a
certificate, a bearer token and a password, and show what an administrator asks for: at a node, and
at a cluster whose nodes know each other by certificates.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.apache_kafka.agent import KafkaAgent
from rig.logins.java import allow_token
from rig.logins.login import PATIENCE_SECONDS, Login
from rig.logins.secured import TOKEN_SECRET, Credentials, SecuredNode, certificate_cluster

ADMINISTRATORS = {"certificate": "CN=alice", "OAUTHBEARER": "alice", "SCRAM-SHA-512": "alice"}
NODES = ("CN=node", "ANONYMOUS")  # and the rig, which talks to a node in plain text
GUARDED = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": ";".join(f"User:{name}" for name in {*ADMINISTRATORS.values(), *NODES}),
    "delegation_token_secret_key": TOKEN_SECRET,
}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials, **GUARDED)
    yield one
    one.stop()


@pytest.fixture(scope="module")
def at_cluster(tmp_path_factory: pytest.TempPathFactory, credentials: Credentials) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("certificates")
    with certificate_cluster(folder, credentials, **GUARDED) as cluster:
        cluster.start()
        yield cluster.bootstrap


def login_by(way: str, credentials: Credentials) -> Login:
    return credentials.by_certificate() if way == "certificate" else credentials.by_sasl(way)


@pytest.mark.parametrize("way", ADMINISTRATORS)
def test_tools_show_entries_users_and_tokens_of_a_node(
    kafka_agent: KafkaAgent, node: SecuredNode, credentials: Credentials, tmp_path: Path, way: str
) -> None:
    bootstrap = node.addresses["SSL" if way == "certificate" else "SASL_SSL"]
    all_is_shown(kafka_agent, bootstrap, login_by(way, credentials), tmp_path, way)


def test_tools_show_entries_users_and_tokens_of_a_cluster_with_certificates(
    kafka_agent: KafkaAgent, at_cluster: str, credentials: Credentials, tmp_path: Path
) -> None:
    all_is_shown(kafka_agent, at_cluster, credentials.by_certificate(), tmp_path, "certificate")


def all_is_shown(agent: KafkaAgent, bootstrap: str, login: Login, folder: Path, way: str) -> None:
    """An entry and a token that are made first, and the users that were there from the start."""
    allow_token(agent, login)
    config = str(login.write(folder / "client.properties"))

    def tool(name: str, *arguments: str) -> str:
        asked = ("--bootstrap-server", bootstrap, "--command-config", config)
        run = agent.run_tool(name, *asked, *arguments)
        assert run.status == 0, run.output
        return run.output

    def shows(name: str, *arguments: str, texts: tuple[str, ...]) -> None:
        """Soon: the broker that is asked may know of a change later than the one that made it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(text in (found := tool(name, *arguments)) for text in texts):
            assert time.monotonic() < deadline, found

    topic = ("--topic", f"by-{way}")
    tool("kafka-acls", "--add", *topic, "--allow-principal", "User:bob", "--operation", "Read")
    entry = "principal=User:bob, host=*, operation=READ, permissionType=ALLOW"
    shows("kafka-acls", "--list", *topic, texts=(f"name=by-{way}", entry))
    users = ("--entity-type", "users", "--entity-name", "alice")
    mechanisms = ("SCRAM-SHA-256=iterations=4096", "SCRAM-SHA-512=iterations=4096")
    shows("kafka-configs", "--describe", *users, texts=mechanisms)
    owner = f"User:{ADMINISTRATORS[way]}"
    made = tool("kafka-delegation-tokens", "--create", "--max-life-time-period", "-1")
    token = re.search(rf"^(\S{{22}}) +\S{{88}} +{owner} +", made, re.MULTILINE)
    assert token is not None, made
    owned = ("--owner-principal", owner)
    shows("kafka-delegation-tokens", "--describe", *owned, texts=(token[1],))
