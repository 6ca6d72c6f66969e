"""Commands of `penstock` against two brokers: Penstock, and Apache Kafka."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.command import Outcome, run_command

NUMBERS = itertools.count(1)
FIRST_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture(scope="module", params=["penstock", "apache-kafka"])
def address(request: pytest.FixtureRequest) -> str:
    name = "bootstrap" if request.param == "penstock" else "apache_kafka"
    found = request.getfixturevalue(name)
    return found if isinstance(found, str) else str(found.bootstrap)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[ConfluentClient]:
    one = ConfluentClient(address)
    yield one
    one.close()


@pytest.fixture
def command(
    address: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[[str], Outcome]:
    return lambda text: run_command(
        text, bootstrap=address, monkeypatch=monkeypatch, captured=capfdbinary
    )


@pytest.fixture
def orders(client: ConfluentClient) -> str:
    """A topic of three partitions, with ten records in the first, one a second from FIRST_MS."""
    name = f"orders-{next(NUMBERS)}"
    client.create_topic(name, partitions=3, settings={"retention.ms": "-1"})
    messages = [
        Message(value=b"v%d" % n, partition=0, timestamp_ms=FIRST_MS + n * 1_000) for n in range(10)
    ]
    client.produce(name, messages)
    return name
