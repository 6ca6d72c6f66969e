"""Apache Kafka's own tool for delegation tokens, and its clients that log in by them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.running_node import RunningNode
from rig.sasl import PLAIN_MODULE, SCRAM_MODULE
from rig.tokens import USERS, settings_with_tokens


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = RunningNode(tmp_path_factory.mktemp("node"), settings_with_tokens())
    running.start()
    yield str(running.node.addresses_by_listener["SASL_PLAINTEXT"])
    running.stop()


def config(path: Path, *, mechanism: str, jaas: str) -> str:
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(path)


def of_user(path: Path, user: str) -> str:
    jaas = f'{PLAIN_MODULE} required username="{user}" password="{USERS[user]}";'
    return config(path, mechanism="PLAIN", jaas=jaas)


def of_token(path: Path, token_id: str, mac: str, mechanism: str) -> str:
    jaas = f'{SCRAM_MODULE} required username="{token_id}" password="{mac}" tokenauth="true";'
    return config(path, mechanism=mechanism, jaas=jaas)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_clients_use_a_token_from_its_creation_to_its_end(
    kafka_agent: KafkaAgent, address: str, tmp_path: Path, mechanism: str
) -> None:
    alice, bob = of_user(tmp_path / "alice", "alice"), of_user(tmp_path / "bob", "bob")

    def tokens(who: str, *arguments: str) -> str:
        run = kafka_agent.run_tool(
            *("kafka-delegation-tokens", "--bootstrap-server", address),
            *("--command-config", who, *arguments),
        )
        assert run.status == 0, run.output
        return run.output

    created = tokens(
        alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    found = re.search(r"^(\S{22}) +(\S{88}) +User:alice +User:alice +", created, re.MULTILINE)
    assert found is not None, created
    token_id, mac = found.groups()
    assert "User:bob" in created
    shown = tokens(bob, "--describe", "--owner-principal", "User:alice")
    assert token_id in shown
    assert mac in shown
    for period in ("-1", "3600000"):
        renewed = tokens(bob, "--renew", "--renew-time-period", period, "--hmac", mac)
        assert "Completed renew operation" in renewed
    by_token = of_token(tmp_path / "token", token_id, mac, mechanism)
    topics = ("kafka-topics", "--bootstrap-server", address, "--command-config", by_token)
    topic = f"by-{mechanism}"
    assert kafka_agent.run_tool(*topics, "--create", "--topic", topic).status == 0
    sent = kafka_agent.run_tool(
        *("kafka-producer-perf-test", "--topic", topic, "--num-records", "10"),
        *("--record-size", "10", "--throughput", "-1", "--producer.config", by_token),
        *("--producer-props", f"bootstrap.servers={address}"),
    )
    assert sent.status == 0, sent.output
    assert "10 records sent" in sent.output
    denied = kafka_agent.run_tool(
        *("kafka-delegation-tokens", "--bootstrap-server", address, "--command-config", by_token),
        *("--create", "--max-life-time-period", "-1"),
    )
    assert denied.status != 0
    assert "Delegation Token requests are not allowed" in denied.output
    ended = tokens(bob, "--expire", "--expiry-time-period", "-1", "--hmac", mac)
    assert "Completed expire operation" in ended
    refused = kafka_agent.run_tool(*topics, "--list")
    assert refused.status != 0
    assert "invalid credentials with SASL mechanism" in refused.output
