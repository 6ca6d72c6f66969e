"""Options lead to the brokers, and what is to be done there is done from wherever Spark calls."""

import asyncio

import pytest

from penstock.client.network.bootstrap import BadAddress
from penstock.client.network.cluster import Cluster
from penstock.model.sasl import Mechanism
from penstock.spark.connection import connect, run
from penstock.spark.options import BadOption, ConnectionOptions
from penstock.world.ports import Address


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


async def refuse() -> int:
    raise BadOption("no")


def test_settings_of_the_client_are_obeyed() -> None:
    async def cluster() -> Cluster:
        told = {"client.id": "me", "request.timeout.ms": "1234", "default.api.timeout.ms": "5"}
        return connect(ConnectionOptions(bootstrap="a:1, b:2", kafka=tuple(told.items())))

    found = run(cluster())
    assert found.bootstrap == (Address(host="a", port=1), Address(host="b", port=2))
    rules = found.rules
    assert (rules.client_id, rules.request_ms_max, rules.reach_ms_max) == ("me", 1234, 5)


def test_an_unknown_protocol_is_refused() -> None:
    told = ConnectionOptions(bootstrap="a:1", kafka=(("security.protocol", "TLS"),))
    with pytest.raises(BadOption, match=r"kafka\.security\.protocol=TLS: expected one of"):
        connect(told)


@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl"])
def test_a_trust_store_that_is_not_there_is_refused(protocol: str) -> None:
    told = {
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/nowhere",
    }
    with pytest.raises(BadOption, match=r"option kafka\.ssl\.truststore\.location: .*/nowhere"):
        connect(ConnectionOptions(bootstrap="a:1", kafka=tuple(told.items())))


def test_a_log_in_is_read_from_kafkas_options_and_not_shown() -> None:
    told = (
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.jaas.config", 'ScramLoginModule required username="u" password="secret";'),
    )

    async def cluster() -> Cluster:
        return connect(ConnectionOptions(bootstrap="a:1", kafka=told))

    rules = run(cluster()).rules
    assert rules.security is not None and rules.security.login is not None
    assert rules.security.login.mechanism is Mechanism.SCRAM_SHA_512
    assert "secret" not in repr(rules)


def test_a_log_in_without_a_password_is_refused() -> None:
    told = (("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"))
    with pytest.raises(BadOption, match=r"sasl\.username is missing"):
        connect(ConnectionOptions(bootstrap="a:1", kafka=told))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadAddress, match="expected HOST:PORT"):
        connect(ConnectionOptions(bootstrap="nowhere"))


def test_work_is_done_with_and_without_a_loop_around() -> None:
    async def notebook() -> int:
        return run(answer())

    assert run(answer()) == 42
    assert asyncio.run(notebook()) == 42


def test_what_work_raises_is_raised() -> None:
    async def notebook() -> int:
        return run(refuse())

    for call in (lambda: run(refuse()), lambda: asyncio.run(notebook())):
        with pytest.raises(BadOption, match="no"):
            call()
