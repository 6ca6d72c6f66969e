"""`penstock dlq`: dead letters are listed, and each is replayed once, whatever happens."""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import dlq_read
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import TimedOut
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.testing import Broker
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rig.client_cluster import run_with_cluster
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.command import Outcome
from rig.raw_serving import run as run_scenario
from rig.raw_serving import serving
from rig.serve import ServedNode

Run = Callable[..., Outcome]

MANY = 6_000
KILLS = 3


@pytest.fixture
def client(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfluentClient]:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)
    one = ConfluentClient(penstock.bootstrap)
    yield one
    one.close()


def letter(number: int, *, source: str = "orders", reason: str = "field id is missing") -> Message:
    """As Spark's pipelines write them: the record came from offset `number` of partition 1, and was
    written long ago.
    """
    return Message(
        key=b"k%d" % number,
        value=b"v%d" % number,
        headers=(
            ("trace", b"t%d" % number),
            ("penstock.dlq.topic", source.encode()),
            ("penstock.dlq.partition", b"1"),
            ("penstock.dlq.offset", b"%d" % number),
            ("penstock.dlq.timestamp", b"%d" % (1_000 + number)),
            ("penstock.dlq.reason", reason.encode()),
            ("penstock.dlq.attempt", b"1"),
        ),
    )


def committed(run: Run, topic: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(f"consume {topic} --committed --json").lines]


def values(run: Run, topic: str) -> list[object]:
    return [record["value"] for record in committed(run, topic)]


def test_letters_are_listed_with_where_they_came_from(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("dead")
    client.produce("dead", [letter(4), letter(7, reason="not valid JSON"), letter(9)])
    shown = run("dlq list dead").text
    assert "orders-1 at 4" in shown and "field id is missing" in shown and "v9" in shown
    assert "3 letters" in shown and "not valid JSON" in shown
    [first, *_] = [json.loads(line) for line in run("dlq list dead --json").lines]
    assert first["reason"] == "field id is missing" and first["attempt"] == 1
    assert [first[f"source_{name}"] for name in ("topic", "partition", "offset")] == [
        "orders",
        1,
        4,
    ]
    assert (first["offset"], first["key"], first["value"]) == (0, "k4", "v4")
    assert first["source_timestamp_ms"] == 1_004
    chosen = run("dlq list dead --reason JSON --json").lines
    assert [json.loads(line)["key"] for line in chosen] == ["k7"]
    limited = run("dlq list dead --limit 1").text
    assert "... and 2 more" in limited and "3 letters" in limited


def test_a_replayed_letter_is_the_record_as_it_was_and_keeps_its_attempt(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders", partitions=3)
    penstock.topic("dead")
    counted = letter(4)
    counted = replace(counted, headers=(*counted.headers, ("penstock.dlq.counted", b"true")))
    client.produce("dead", [counted])
    before_ms = time.time_ns() // 1_000_000
    assert run("dlq replay dead").text.endswith("replayed 1 letter\n")
    after_ms = time.time_ns() // 1_000_000
    [record] = committed(run, "orders")
    assert record["partition"] == 1
    assert (record["key"], record["value"], record["timestamp_ms"]) == ("k4", "v4", 1_004)
    headers: Any = record["headers"]
    *kept, replayed = headers
    assert kept == [
        {"name": "trace", "value": "t4"},
        {"name": "penstock.dlq.attempt", "value": "1"},
        {"name": "penstock.dlq.counted", "value": "true"},
    ]
    assert replayed["name"] == "penstock.dlq.replayed-at"
    assert before_ms <= int(replayed["value"]) <= after_ms


def test_a_letter_that_tells_no_time_is_replayed_with_its_own(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders")
    penstock.topic("dead")
    client.produce("dead", [Message(key=b"s", value=b"stranger", timestamp_ms=5_000)])
    assert run("dlq replay dead --to orders").status == 0
    assert [record["timestamp_ms"] for record in committed(run, "orders")] == [5_000]


def test_a_letter_of_the_future_is_replayed_as_of_now_and_holds_up_no_other(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    """Brokers refuse records that are dated far ahead of their clock."""
    penstock.topic("orders", partitions=2)
    penstock.topic("dead")
    in_2099_ms = 4_070_908_800_000
    client.produce("dead", [letter(in_2099_ms), letter(4)])
    assert run("dlq replay dead").text.endswith("replayed 2 letters\n")
    first, second = committed(run, "orders")
    assert first["value"] == f"v{in_2099_ms}"
    assert 1_004 < int(str(first["timestamp_ms"])) < in_2099_ms
    assert second["timestamp_ms"] == 1_004


def test_what_was_replayed_is_not_replayed_again(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders", partitions=2)
    penstock.topic("dead", partitions=2)
    client.produce("dead", [letter(number) for number in range(10)])
    assert run("dlq replay dead --json").json()["replayed"] == 10
    assert run("dlq replay dead --json").json()["replayed"] == 0
    assert run("dlq list dead --json").lines == []
    assert len(run("dlq list dead --all --json").lines) == 10
    client.produce("dead", [letter(10)])
    assert run("dlq replay dead --json").json()["replayed"] == 1
    assert Counter(values(run, "orders")) == Counter(f"v{number}" for number in range(11))
    [group] = run("groups describe penstock-dlq-dead --json").json()
    assert [one["lag"] for one in group["partitions"]] == [0, 0], "receipts wait for nothing"


@pytest.mark.parametrize("chosen", ["", "--reason 'a is'"])
def test_what_was_replayed_is_not_replayed_again_though_the_groups_offsets_are_gone(
    run: Run, penstock: Broker, client: ConfluentClient, chosen: str
) -> None:
    """They expire while letters are kept."""
    penstock.topic("orders", partitions=2)
    penstock.topic("dead", partitions=2)
    faults = ("a is missing", "b is missing")
    client.produce("dead", [letter(number, reason=faults[number // 5]) for number in range(10)])
    first = run(f"dlq replay dead {chosen} --json").json()["replayed"]
    assert run("groups delete penstock-dlq-dead").status == 0
    assert len(run("dlq list dead --json").lines) == 10 - first
    assert run("dlq replay dead --json").json()["replayed"] == 10 - first
    assert Counter(values(run, "orders")) == Counter(f"v{number}" for number in range(10))


def test_letters_left_out_wait_and_none_is_replayed_twice(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders", partitions=2)
    penstock.topic("dead")
    faults = ("a is missing", "b is missing", "c is missing")
    client.produce("dead", [letter(n, reason=faults[n % 3]) for n in range(30)])
    first = run("dlq replay dead --reason 'b is' --json").json()
    assert (first["replayed"], first["left"]) == (10, 20)
    waiting = [json.loads(line) for line in run("dlq list dead --json").lines]
    assert Counter(one["reason"] for one in waiting) == {faults[0]: 10, faults[2]: 10}
    again = run("dlq replay dead --reason 'b is' --reason 'c is' --limit 4 --json").json()
    assert again["replayed"] == 4
    assert run("dlq replay dead --json").json()["replayed"] == 16
    assert run("dlq list dead --json").lines == []
    assert Counter(values(run, "orders")) == Counter(f"v{n}" for n in range(30))


def test_a_dry_run_writes_nothing(run: Run, penstock: Broker, client: ConfluentClient) -> None:
    penstock.topic("orders", partitions=2)
    penstock.topic("bills", partitions=2)
    penstock.topic("dead")
    client.produce("dead", [letter(1), letter(2, source="bills")])
    planned = run("dlq replay dead --dry-run --json").json()
    assert planned["counts"] == [
        {"topic": "bills", "reason": "field id is missing", "letters": 1},
        {"topic": "orders", "reason": "field id is missing", "letters": 1},
    ]
    assert "would replay 2 letters" in run("dlq replay dead --dry-run").text
    assert values(run, "orders") == []
    assert len(run("dlq list dead --json").lines) == 2


def test_letters_go_elsewhere_by_their_keys(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("fixed", partitions=4)
    penstock.topic("dead")
    client.produce("dead", [letter(n) for n in range(20)])
    client.produce("dead", [Message(key=b"stranger", value=b"v20")])
    for command in ("replay dead --to nowhere", "replay dead --to nowhere --dry-run"):
        without = run(f"dlq {command}")
        assert (without.status, without.err) == (1, "penstock: nowhere: there is no such topic\n")
    assert run("dlq replay dead --to fixed --json").json()["replayed"] == 21
    found = committed(run, "fixed")
    assert sorted(str(one["value"]) for one in found) == sorted(f"v{n}" for n in range(21))
    assert len({one["partition"] for one in found}) > 1


def test_a_letter_that_tells_no_source_waits_until_it_is_told_where_to(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders", partitions=2)
    penstock.topic("dead")
    client.produce("dead", [Message(key=b"s", value=b"stranger"), letter(1)])
    told = run("dlq replay dead").text
    assert told.endswith("replayed 1 letter; 1 do not tell where they came from: give --to\n")
    assert run("dlq replay dead --to orders --json").json()["replayed"] == 1
    assert sorted(map(str, values(run, "orders"))) == ["stranger", "v1"]


def test_letters_whose_topic_is_gone_wait_and_hold_up_no_others(
    run: Run, penstock: Broker, client: ConfluentClient
) -> None:
    penstock.topic("orders", partitions=2)
    penstock.topic("dead")
    client.produce(
        "dead", [letter(1), letter(2, source="gone"), letter(3), letter(4, source="no topic!")]
    )
    gone = [{"topic": "gone", "letters": 1}, {"topic": "no topic!", "letters": 1}]
    planned = run("dlq replay dead --dry-run --json").json()
    assert (planned["replayed"], planned["gone"]) == (2, gone)
    told = run("dlq replay dead")
    assert (told.status, told.text.splitlines()[-1]) == (
        0,
        "replayed 2 letters; 2 wait for topics that are not there (gone, no topic!): give --to",
    )
    assert Counter(values(run, "orders")) == {"v1": 1, "v3": 1}
    penstock.topic("gone", partitions=2)
    again = run("dlq replay dead --json").json()
    assert (again["replayed"], again["gone"]) == (1, gone[1:])
    assert values(run, "gone") == ["v2"]
    assert run("dlq replay dead --to orders --json").json()["replayed"] == 1
    assert Counter(values(run, "orders")) == {"v1": 1, "v3": 1, "v4": 1}


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dlq_read, "PATIENCE_MS", 1_000)


def without_leader(_: object, message: MetadataRequest, __: object) -> MetadataResponse:
    """What brokers tell of a topic whose only replica is away."""
    partition = MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE, partition_index=0, leader_id=-1, leader_epoch=3
    )
    topics = [
        MetadataResponseTopic(name=one.name, partitions=[partition]) for one in message.topics or []
    ]
    return MetadataResponse(topics=topics)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("command", ["list dead", "replay dead --dry-run"])
def test_a_partition_without_leader_is_told_in_one_line(run: Run, command: str) -> None:
    async def scenario() -> None:
        async with serving(handle=without_leader) as served:
            ended = await asyncio.to_thread(run, f"dlq {command}", bootstrap=str(served.address))
        said = "penstock: dead-0: no leader told its offsets within 1000 ms\n"
        assert (ended.status, ended.err.splitlines(keepends=True)[-1]) == (1, said)

    run_scenario(scenario())


def test_an_end_that_cannot_be_reached_any_more_is_not_waited_for(
    penstock: Broker, client: ConfluentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlq_read, "PATIENCE_MS", 5_000)  # enough for what is there
    penstock.topic("dead")
    client.produce("dead", [letter(1), letter(2)])
    place = TopicPartition("dead", 0)

    async def read(cluster: Cluster) -> list[Offset]:
        offsets: list[Offset] = []
        ends = {place: Offset(5)}  # as it was before the leader that had the rest was lost
        with pytest.raises(TimedOut, match="dead-0: nothing could be read at offset 2 for"):
            async for records in dlq_read.read_all(cluster, {place: Offset(0)}, ends):
                offsets += [record.offset for record in records]
        return offsets

    assert run_with_cluster(penstock.bootstrap, read) == [0, 1]


def test_a_dead_letter_topic_that_is_not_there_is_named(run: Run, client: ConfluentClient) -> None:
    for command in ("list nowhere", "replay nowhere", "replay nowhere --dry-run"):
        refused = run(f"dlq {command}")
        assert (refused.status, refused.err) == (1, "penstock: nowhere: there is no such topic\n")


def test_a_replay_that_is_killed_and_started_again_neither_loses_nor_repeats(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = ServedNode(data=tmp_path / "node", settings={"log.retention.ms": "-1"})
    node.start()
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", node.bootstrap)
    client = ConfluentClient(node.bootstrap)
    try:
        client.create_topic("orders", partitions=2)
        client.create_topic("dead", partitions=3)
        faults = ("a is missing", "b is missing")
        client.produce("dead", [letter(n, reason=faults[n % 2]) for n in range(MANY)])
        for _ in range(KILLS):
            _kill_a_replay_at_work(client)
        assert run("dlq replay dead --reason 'a is'").status == 0
        assert len(run(f"dlq list dead --json --limit {MANY}").lines) == MANY // 2
        assert run("dlq replay dead").status == 0
        assert run("dlq list dead --json").lines == []
        found = Counter(values(run, "orders"))
        assert found == Counter(f"v{n}" for n in range(MANY))
    finally:
        client.close()
        node.stop()


def _kill_a_replay_at_work(client: ConfluentClient) -> None:
    """As soon as it has written something, committed or not."""
    before = client.offset_bounds("orders", 1)
    command = [sys.executable, "-m", "penstock.cli.main", "dlq", "replay", "dead"]
    replaying = subprocess.Popen([*command, "--reason", "a is"], stdout=subprocess.DEVNULL)
    try:
        while replaying.poll() is None and client.offset_bounds("orders", 1) == before:
            pass
    finally:
        replaying.kill()
        replaying.wait()
