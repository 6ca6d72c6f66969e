"""`penstock.client.connect` takes Kafka's settings, and what it makes gets in where they let it."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import penstock.client
from penstock.client.network.client_security import BadSecurity
from penstock.client.network.cluster import ClusterRules
from penstock.client.network.errors import AuthenticationFailed
from penstock.model.settings.setting import InvalidSetting, MissingSetting
from penstock.world.ports import Address
from rig.logins.login import PATIENCE_SECONDS, Login
from rig.logins.secured import MECHANISMS, Credentials, SecuredNode


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, credentials: Credentials
) -> Iterator[SecuredNode]:
    one = SecuredNode(tmp_path_factory.mktemp("node"), credentials)
    yield one
    one.stop()


def topics_seen(settings: Mapping[str, str]) -> list[str]:
    async def work() -> list[str]:
        async with penstock.client.connect(settings) as cluster:
            return sorted((await penstock.client.Admin(cluster).topics()).topics)

    return asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))


def settings_of(node: SecuredNode, login: Login) -> dict[str, str]:
    listener = "SSL"
    if login.mechanism is not None:
        listener = "SASL_SSL" if login.certificate is None else "BOTH"
    return {"bootstrap.servers": node.addresses[listener], **login.java_settings()}


@pytest.mark.parametrize("way", [*MECHANISMS, "certificate", "both"])
def test_a_dict_of_kafkas_settings_gets_in(
    node: SecuredNode, credentials: Credentials, way: str
) -> None:
    match way:
        case "certificate":
            login = credentials.by_certificate()
        case "both":
            login = credentials.by_both("SCRAM-SHA-512")
        case _:
            login = credentials.by_sasl(way)
    assert topics_seen(settings_of(node, login)) == []


def test_a_file_of_settings_gets_in(
    node: SecuredNode, credentials: Credentials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD_OF_ALICE", "alice-secret")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=alice\n"
        "sasl.password=${env:PASSWORD_OF_ALICE}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={credentials.files.trusted}\n"
    )
    settings = penstock.client.read_client_settings(file)
    assert topics_seen({"bootstrap.servers": node.addresses["SASL_SSL"], **settings}) == []


def test_a_wrong_password_is_named(node: SecuredNode, credentials: Credentials) -> None:
    settings = settings_of(node, credentials.by_sasl("PLAIN"))
    wrong = {name: value.replace("alice-secret", "wrong") for name, value in settings.items()}
    with pytest.raises(AuthenticationFailed):
        topics_seen(wrong)


def test_settings_take_precedence_over_rules() -> None:
    rules = ClusterRules(client_id="mine", request_ms_max=5, connect_ms_max=6)
    settings = {"bootstrap.servers": "a:1,b:2", "client.id": "yours", "request.timeout.ms": "7"}

    async def work() -> penstock.client.Cluster:
        return penstock.client.connect(settings, rules=rules)

    found = asyncio.run(work())
    assert found.bootstrap == (Address(host="a", port=1), Address(host="b", port=2))
    assert found.rules == ClusterRules(client_id="yours", request_ms_max=7, connect_ms_max=6)


def test_what_cannot_work_is_refused_by_name() -> None:
    with pytest.raises(MissingSetting, match=r"bootstrap\.servers: HOST:PORT"):
        penstock.client.connect({})
    with pytest.raises(InvalidSetting, match=r"request\.timeout\.ms: .*at least 1"):
        penstock.client.connect({"bootstrap.servers": "a:1", "request.timeout.ms": "0"})
    with pytest.raises(BadSecurity, match=r"security\.protocol=TLS"):
        penstock.client.connect({"bootstrap.servers": "a:1", "security.protocol": "TLS"})
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        penstock.client.conect  # noqa: B018
