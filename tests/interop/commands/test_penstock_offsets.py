"""`penstock topics offsets`, `topics delete-records` and `cluster describe`, against Penstock and
against Apache Kafka.
"""

import itertools
from collections.abc import Callable

import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.command import Outcome

NUMBERS = itertools.count(1)
FIRST_MS = 1_700_000_000_000  # of the records of `orders`: 2023-11-14T22:13:20Z

Command = Callable[[str], Outcome]


def ends(command: Command, topic: str) -> list[tuple[int, int]]:
    return [
        (one["earliest"], one["latest"]) for one in command(f"topics offsets {topic} --json").json()
    ]


def test_partitions_are_shown_with_their_ends(command: Command, orders: str) -> None:
    assert ends(command, orders) == [(0, 10), (0, 0), (0, 0)]
    assert ends(command, f"{orders}:0") == [(0, 10)]
    everywhere = command("topics offsets --json").json()
    assert {"topic": orders, "partition": 0, "earliest": 0, "latest": 10} in everywhere
    assert not [one for one in everywhere if one["topic"].startswith("__")]
    assert "latest" in command(f"topics offsets {orders}").text


def test_offsets_are_found_by_time(command: Command, orders: str) -> None:
    asked = command(f"topics offsets {orders} --time 2023-11-14T22:13:23.500 --json").json()
    found = [(one["at_time"], one["at_time_timestamp_ms"]) for one in asked]
    assert found == [(4, FIRST_MS + 4_000), (None, None), (None, None)]
    table = command(f"topics offsets {orders}:0 --time @{FIRST_MS}").text
    assert str(FIRST_MS) in table


@pytest.mark.parametrize(
    ("before", "earliest"),
    [("3", 3), ("latest", 10), ("2023-11-14T22:13:25", 5), ("2099-01-01", 10), ("0", 0)],
)
def test_records_are_shown_first_and_deleted_when_told_to(
    command: Command, orders: str, before: str, earliest: int
) -> None:
    delete = f"topics delete-records {orders}:0 --before {before} --json"
    shown = command(delete).json()
    step = {"topic": orders, "partition": 0, "old": 0, "new": earliest}
    assert shown == {"done": False, "partitions": [step]}
    assert ends(command, orders)[0] == (0, 10)
    assert command(f"{delete} --execute").json() == {"done": True, "partitions": [step]}
    assert ends(command, orders)[0] == (earliest, 10)
    assert len(command(f"consume {orders}").lines) == 10 - earliest


def test_what_is_deleted_stays_so(command: Command, orders: str) -> None:
    command(f"topics delete-records {orders}:0 --before 6 --execute")
    again = command(f"topics delete-records {orders}:0 --before 2 --execute --json").json()
    assert [(one["old"], one["new"]) for one in again["partitions"]] == [(6, 6)]
    assert ends(command, orders)[0] == (6, 10)


def test_what_cannot_be_deleted_is_told_in_one_line(
    command: Command, client: ConfluentClient, orders: str
) -> None:
    compacted = f"compacted-{next(NUMBERS)}"
    client.create_topic(compacted, partitions=1, settings={"cleanup.policy": "compact"})
    client.produce(compacted, [Message(key=b"k", value=b"v", partition=0)])
    for arguments, said in (
        (f"{orders} --before 7 --execute", f"{orders}-1: it ends at offset 0"),
        ("nope --before 7", "nope: there is no such topic"),
        (f"{compacted} --before 1 --execute", f"{compacted}-0: its cleanup.policy is compact"),
    ):
        refused = command(f"topics delete-records {arguments}")
        assert refused.status == 1
        assert refused.err.startswith(f"penstock: {said}")
        assert refused.err.count("\n") == 1
    assert ends(command, orders)[0] == (0, 10)


def test_the_cluster_is_described(command: Command, address: str) -> None:
    told = command("cluster describe --json").json()
    [broker] = told["brokers"]
    assert f"{broker['host']}:{broker['port']}" == address
    assert (broker["rack"], broker["fenced"]) == (None, False)
    assert told["controller"] == broker["id"]
    assert told["features"]["transaction.version"] == 2
    shown = command("cluster describe").text
    assert told["cluster_id"] in shown
    assert "metadata.version" in shown


def test_versions_of_apis_are_described(command: Command) -> None:
    [broker] = command("cluster describe --versions --json").json()["brokers"]
    served = {one["name"]: one["max"] for one in broker["versions"]}
    assert served["PRODUCE"] >= 12
    assert "PRODUCE" in command("cluster describe --versions").text
