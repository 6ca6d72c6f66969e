"""Clients of others log in by each mechanism, and are told when they may not."""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ScramMechanism as ConfluentMechanism
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from rig.logins.login import Heard
from rig.running_node import RunningNode
from rig.sasl import sasl_listener

WAIT_S = 120
KAFKA_PYTHON_REASON = "SaslAuthenticationFailedError"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    settings = sasl_listener(
        *MECHANISMS,
        "OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=keys.as_uri(),
        sasl_oauthbearer_expected_issuer="https://issuer",
        sasl_oauthbearer_expected_audience="penstock",
    )
    running = RunningNode(tmp_path_factory.mktemp("node"), settings)
    running.start()
    plain = str(running.node.addresses_by_listener["PLAINTEXT"])
    admin = AdminClient({"bootstrap.servers": plain})
    altered = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion("alice", ScramCredentialInfo(kind, 4096), b"alice-secret")
            for kind in (ConfluentMechanism.SCRAM_SHA_256, ConfluentMechanism.SCRAM_SHA_512)
        ]
    )
    for done in altered.values():
        done.result(WAIT_S)
    yield running
    running.stop()


@pytest.fixture
def address(node: RunningNode) -> str:
    return str(node.node.addresses_by_listener["SASL_PLAINTEXT"])


def confluent(address: str, mechanism: str, password: str = "alice-secret") -> dict[str, object]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def others(address: str, mechanism: str, password: str = "alice-secret") -> dict[str, str]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_produces_and_consumes(address: str, mechanism: str) -> None:
    topic = f"confluent-{mechanism}"
    producer = Producer(confluent(address, mechanism))
    producer.produce(topic, b"record")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            **confluent(address, mechanism),
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, WAIT_S)
    assert message.value() == b"record"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes(address: str, mechanism: str) -> None:
    topic = f"python-{mechanism}"
    producer = KafkaProducer(**others(address, mechanism))
    producer.send(topic, b"record").get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **others(address, mechanism),
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    assert next(iter(consumer)).value == b"record"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_produces_and_consumes(address: str, mechanism: str) -> None:
    topic = f"aio-{mechanism}"

    async def scenario() -> None:
        async with AIOKafkaProducer(**others(address, mechanism)) as producer:
            await producer.send_and_wait(topic, b"record")
        consumer = AIOKafkaConsumer(
            topic, **others(address, mechanism), group_id=topic, auto_offset_reset="earliest"
        )
        async with consumer, asyncio.timeout(WAIT_S):
            assert (await consumer.getone()).value == b"record"

    asyncio.run(scenario())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_client_is_told_of_a_wrong_password(address: str, mechanism: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer({**confluent(address, mechanism, "wrong"), "error_cb": failures.append})
    until = time.monotonic() + WAIT_S
    while not failures and time.monotonic() < until:
        producer.poll(0.1)
    assert failures[0].code() == KafkaError._AUTHENTICATION
    assert KAFKA_PYTHON_REASON in told_by_kafka_python(address, mechanism)

    async def scenario() -> None:
        producer = AIOKafkaProducer(**others(address, mechanism, "wrong"))
        try:
            await producer.start()
        finally:
            with contextlib.suppress(AioKafkaError):
                await producer.stop()

    with pytest.raises(AioKafkaError):
        asyncio.run(scenario())


def told_by_kafka_python(address: str, mechanism: str) -> str:
    """It gives the reason in its log alone, and tries again until its time-out; where that was too
    short for a busy machine, it is given a longer one.
    """
    for seconds in (1, 2, 4, 8, 16, 32):
        with Heard("kafka") as heard, pytest.raises(KafkaPythonError) as refused:
            KafkaProducer(
                **others(address, mechanism, "wrong"), bootstrap_timeout_ms=seconds * 1000
            )
        told = heard.with_error(refused.value)
        if KAFKA_PYTHON_REASON in told:
            break
    return told


def token(**changes: object) -> str:
    claims = {
        "iss": "https://issuer",
        "aud": "penstock",
        "sub": "alice",
        "exp": int(time.time()) + 300,
        **changes,
    }
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, KEY)


def with_token(address: str, text: str) -> dict[str, object]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (text, time.time() + 300),
    }


def test_confluent_kafka_logs_in_by_a_bearer_token(address: str) -> None:
    producer = Producer(with_token(address, token()))
    producer.produce("by-token", b"record")
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize(
    "text",
    [
        token(aud="another"),
        token(iss="https://another"),
        token(exp=int(time.time()) - 300),
        jwt.encode(
            {"alg": "RS256", "kid": "one"},
            {"sub": "alice", "aud": "penstock", "iss": "https://issuer", "exp": 2**31},
            RSAKey.generate_key(2048),
        ),
    ],
    ids=["audience", "issuer", "expired", "key"],
)
def test_a_token_that_does_not_count_is_refused(address: str, text: str) -> None:
    failures: list[KafkaError] = []
    producer = Producer({**with_token(address, text), "error_cb": failures.append})
    until = time.monotonic() + WAIT_S
    while not failures and time.monotonic() < until:
        producer.poll(0.1)
    assert failures[0].code() == KafkaError._AUTHENTICATION


def test_credentials_are_described_and_removed_by_confluent_kafka(address: str) -> None:
    admin = AdminClient(confluent(address, "PLAIN"))
    info = ScramCredentialInfo(ConfluentMechanism.SCRAM_SHA_256, 8192)
    set_now = admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("eve", info, b"eve-secret")]
    )
    set_now["eve"].result(WAIT_S)
    described = admin.describe_user_scram_credentials(["eve"])["eve"].result(WAIT_S)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (ConfluentMechanism.SCRAM_SHA_256, 8192)
    removed = admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("eve", ConfluentMechanism.SCRAM_SHA_256)]
    )
    removed["eve"].result(WAIT_S)
    with pytest.raises(KafkaException) as refused:
        admin.describe_user_scram_credentials(["eve"])["eve"].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_clients_go_on_when_their_sessions_end(tmp_path: Path) -> None:
    running = RunningNode(tmp_path, sasl_listener("PLAIN", connections_max_reauth_ms="1500"))
    running.start()
    try:
        address = str(running.node.addresses_by_listener["SASL_PLAINTEXT"])
        failures: list[object] = []
        confluent_producer = Producer(confluent(address, "PLAIN"))
        python_producer = KafkaProducer(**others(address, "PLAIN"))
        sent = 0
        until = time.monotonic() + 4
        while time.monotonic() < until:  # for more than two sessions
            confluent_producer.produce(
                "orders", b"record", on_delivery=lambda error, _: failures.append(error)
            )
            assert confluent_producer.flush(WAIT_S) == 0
            python_producer.send("orders", b"record").get(WAIT_S)
            sent += 1
        assert failures == [None] * sent
        python_producer.close()
    finally:
        running.stop()


def test_credentials_survive_a_restart(tmp_path: Path) -> None:
    settings = sasl_listener("SCRAM-SHA-256")
    for start in range(2):
        running = RunningNode(tmp_path, settings)
        running.start()
        try:
            if start == 0:
                plain = str(running.node.addresses_by_listener["PLAINTEXT"])
                info = ScramCredentialInfo(ConfluentMechanism.SCRAM_SHA_256, 4096)
                admin = AdminClient({"bootstrap.servers": plain})
                admin.alter_user_scram_credentials(
                    [UserScramCredentialUpsertion("alice", info, b"alice-secret")]
                )["alice"].result(WAIT_S)
            else:
                address = str(running.node.addresses_by_listener["SASL_PLAINTEXT"])
                producer = Producer(confluent(address, "SCRAM-SHA-256"))
                producer.produce("orders", b"record")
                assert producer.flush(WAIT_S) == 0
        finally:
            running.stop()
