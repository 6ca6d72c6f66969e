"""Apache Kafka's `kafka-acls`, `kafka-configs` and `kafka-delegation-tokens` on three nodes that
speak TLS alone, with clients and with each other: what they say is done, and counts for clients.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from rig.apache_kafka.agent import KafkaAgent
from rig.logins.confluent import settings_of
from rig.logins.login import PATIENCE_SECONDS, Login
from rig.logins.secured import Credentials, authorised_cluster

RESOURCE = re.compile(r"resourceType=(\w+), name=([^,]+), patternType=(\w+)\)`")
ENTRY = re.compile(r"\(principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)\)")

Entry = tuple[str, ...]
Tool = Callable[..., str]
Found = TypeVar("Found")


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, credentials: Credentials) -> Iterator[str]:
    with authorised_cluster(tmp_path_factory.mktemp("cluster"), credentials) as cluster:
        cluster.start()
        yield cluster.bootstrap


@pytest.fixture
def tool(kafka_agent: KafkaAgent, bootstrap: str, credentials: Credentials, tmp_path: Path) -> Tool:
    """Runs one of Kafka's tools as a super user, or as `login`, until it succeeds or, where asked
    for, fails: the broker that it asks may know of a change later than the one that made it.
    """

    def run(name: str, *arguments: str, login: Login | None = None, fails: bool = False) -> str:
        config = (login or credentials.of_nodes()).write(tmp_path / "client.properties")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            done = kafka_agent.run_tool(
                name, "--bootstrap-server", bootstrap, "--command-config", str(config), *arguments
            )
            if (done.status != 0) == fails:
                return done.output
            assert time.monotonic() < deadline, done.output

    return run


def soon(ask: Callable[[], Found], expected: Found) -> None:
    """Asks until the answer is as expected, for the same reason."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := ask()) != expected:
        assert time.monotonic() < deadline, found


def entries(tool: Tool, *resource: str) -> set[Entry]:
    """What `--list` shows: type, name and kind of the resource, principal, host, operation,
    permission.
    """
    found: set[Entry] = set()
    about: tuple[str, ...] = ()
    for line in tool("kafka-acls", "--list", *resource).splitlines():
        if named := RESOURCE.search(line):
            about = named.groups()
        elif entry := ENTRY.search(line):
            found.add((*about, *entry.groups()))
    return found


def write_error(bootstrap: str, login: Login, topic: str, **settings: str) -> str | None:
    """The name of the error that a producer is told of its record; None for a record that is in."""
    errors: list[KafkaError | None] = []
    more = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({**settings_of(bootstrap, login), **more})
    try:
        if more:
            producer.init_transactions(PATIENCE_SECONDS)
            producer.begin_transaction()
        producer.produce(topic, b"record", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_SECONDS) == 0
        if more and errors == [None]:
            producer.commit_transaction(PATIENCE_SECONDS)
    except KafkaException as refused:
        return str(refused.args[0].name())
    [error] = errors
    return None if error is None else str(error.name())


def read_error(bootstrap: str, login: Login, topic: str, *, group: str) -> str | None:
    """The name of the error that a member of a group is told; None when it has a record."""
    consumer = Consumer(
        {**settings_of(bootstrap, login), "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        [message] = consumer.consume(1, PATIENCE_SECONDS)
        error = message.error()
        return None if error is None else str(error.name())
    finally:
        consumer.close()


def test_entries_are_added_listed_and_removed(tool: Tool) -> None:
    about = ("--topic", "plain")
    add = ("kafka-acls", "--add", "--allow-principal", "User:alice", *about)
    tool(*add, "--operation", "Read", "--operation", "Describe", "--allow-host", "10.1.2.3")
    read = ("TOPIC", "plain", "LITERAL", "User:alice", "10.1.2.3", "READ", "ALLOW")
    described = (*read[:5], "DESCRIBE", "ALLOW")
    soon(lambda: entries(tool, *about), {read, described})
    assert entries(tool, *about, "--principal", "User:bob") == set()
    remove = ("kafka-acls", "--remove", "--force", "--allow-principal", "User:alice", *about)
    tool(*remove, "--operation", "Describe", "--allow-host", "10.1.2.3")
    soon(lambda: entries(tool, *about), {read})
    tool("kafka-acls", "--remove", "--force", *about)
    soon(lambda: entries(tool, *about), set())


def test_a_prefix_counts_for_each_name_that_begins_with_it(
    tool: Tool, bootstrap: str, credentials: Credentials
) -> None:
    alice = credentials.by_sasl("SCRAM-SHA-512")
    prefixed = ("--resource-pattern-type", "prefixed", "--topic", "shop-")
    add = ("kafka-acls", "--add", "--allow-principal", "User:alice", *prefixed)
    tool(*add, "--operation", "Write", "--operation", "Create")
    write = ("TOPIC", "shop-", "PREFIXED", "User:alice", "*", "WRITE", "ALLOW")
    added = {write, (*write[:5], "CREATE", "ALLOW")}
    soon(lambda: entries(tool, *prefixed), added)
    matching = ("--resource-pattern-type", "match", "--topic", "shop-orders")
    soon(lambda: entries(tool, *matching), added)
    soon(lambda: write_error(bootstrap, alice, "shop-orders"), None)
    assert write_error(bootstrap, alice, "other-orders") == "TOPIC_AUTHORIZATION_FAILED"
    tool("kafka-acls", "--remove", "--force", *prefixed)
    soon(lambda: write_error(bootstrap, alice, "shop-orders"), "TOPIC_AUTHORIZATION_FAILED")


def test_an_entry_that_denies_counts_for_its_host(
    tool: Tool, bootstrap: str, credentials: Credentials
) -> None:
    alice = credentials.by_sasl("PLAIN")
    about = ("--topic", "denied")
    add = ("kafka-acls", "--add", *about)
    tool(*add, "--allow-principal", "User:alice", "--operation", "Write", "--operation", "Create")
    deny = ("--deny-principal", "User:alice", "--operation", "Write", "--deny-host")
    tool(*add, *deny, "10.9.9.9")
    soon(lambda: write_error(bootstrap, alice, "denied"), None)
    tool(*add, *deny, "127.0.0.1")
    soon(
        lambda: {entry[4:] for entry in entries(tool, *about) if entry[6] == "DENY"},
        {("10.9.9.9", "WRITE", "DENY"), ("127.0.0.1", "WRITE", "DENY")},
    )
    soon(lambda: write_error(bootstrap, alice, "denied"), "TOPIC_AUTHORIZATION_FAILED")
    tool("kafka-acls", "--remove", "--force", *about, *deny, "127.0.0.1")
    soon(lambda: write_error(bootstrap, alice, "denied"), None)


def test_producer_and_consumer_have_what_they_need(
    tool: Tool, bootstrap: str, credentials: Credentials
) -> None:
    alice = credentials.by_sasl("SCRAM-SHA-256")
    add = ("kafka-acls", "--add", "--allow-principal", "User:alice", "--topic", "roles")
    in_transaction = {"transactional_id": "roles-1"}
    refused = write_error(bootstrap, alice, "roles", **in_transaction)
    assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    tool(*add, "--producer", "--transactional-id", "roles-1")
    added = {("TRANSACTIONAL_ID", "roles-1", "WRITE")}
    added |= {("TOPIC", "roles", one) for one in ("WRITE", "DESCRIBE", "CREATE")}
    soon(lambda: added <= {(one[0], one[1], one[5]) for one in entries(tool)}, True)
    soon(lambda: write_error(bootstrap, alice, "roles", **in_transaction), None)
    soon(lambda: write_error(bootstrap, alice, "roles"), None)
    assert read_error(bootstrap, alice, "roles", group="readers") == "GROUP_AUTHORIZATION_FAILED"
    tool(*add, "--consumer", "--group", "readers")
    may_read = ("GROUP", "readers", "READ")
    soon(lambda: may_read in {(one[0], one[1], one[5]) for one in entries(tool)}, True)
    soon(lambda: read_error(bootstrap, alice, "roles", group="readers"), None)
    assert read_error(bootstrap, alice, "roles", group="others") == "GROUP_AUTHORIZATION_FAILED"


def test_a_user_without_rights_may_not_touch_entries(tool: Tool, credentials: Credentials) -> None:
    alice = credentials.by_sasl("SCRAM-SHA-512")
    said = tool("kafka-acls", "--list", login=alice, fails=True)
    assert "ClusterAuthorizationException" in said
    about = ("--topic", "mine", "--allow-principal", "User:alice", "--operation", "All")
    tool("kafka-acls", "--add", *about, login=alice, fails=True)
    assert entries(tool, "--topic", "mine") == set()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafka_configs_makes_users_over_tls(
    tool: Tool, credentials: Credentials, mechanism: str
) -> None:
    user = replace(credentials.by_sasl(mechanism), user="java", password="java-secret")
    about = ("kafka-configs", "--entity-type", "users", "--entity-name", "java")
    tool(*about, "--alter", "--add-config", f"{mechanism}=[iterations=8192,password=java-secret]")
    soon(lambda: f"{mechanism}=iterations=8192" in tool(*about, "--describe"), True)
    assert "java-secret" not in tool(*about, "--describe")
    tool("kafka-topics", "--list", login=user)
    tool(*about, "--alter", "--delete-config", mechanism)
    refused = tool("kafka-topics", "--list", login=user, fails=True)
    assert "invalid credentials with SASL mechanism" in refused


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafka_delegation_tokens_makes_renews_and_ends_a_token_over_tls(
    tool: Tool, credentials: Credentials, mechanism: str
) -> None:
    alice = credentials.by_sasl("SCRAM-SHA-512")
    renew = ("--renewer-principal", "User:node")
    made = tool(
        "kafka-delegation-tokens", "--create", "--max-life-time-period", "-1", *renew, login=alice
    )
    found = re.search(r"^(\S{22}) +(\S{88}) +User:alice +User:alice +", made, re.MULTILINE)
    assert found is not None, made
    token_id, mac = found.groups()
    named = ("--owner-principal", "User:alice")
    describe = ("kafka-delegation-tokens", "--describe", *named)
    soon(lambda: token_id in tool(*describe, login=alice), True)
    tool("kafka-delegation-tokens", "--renew", "--renew-time-period", "-1", "--hmac", mac)
    by_token = replace(
        credentials.by_sasl(mechanism), user=token_id, password=mac, by_delegation_token=True
    )
    tool("kafka-topics", "--list", login=by_token)
    tool("kafka-delegation-tokens", "--expire", "--expiry-time-period", "-1", "--hmac", mac)
    refused = tool("kafka-topics", "--list", login=by_token, fails=True)
    assert "invalid credentials with SASL mechanism" in refused
