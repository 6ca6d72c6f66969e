"""`penstock consume --format`, `--key-only` and `--tail`."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.cli.consume_tail import merged
from penstock.cli.record_format import parse_format
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.model.offset import LeaderEpoch, Offset
from penstock.records.layout import TimestampType
from penstock.testing import Broker

Run = Callable[..., Any]

FIRST_MS = 1_700_000_000_000
ALL = r"%t %p %o %k %s %T %h %K %S 100%%\t\\\n"


@pytest.fixture(autouse=True)
def at_broker(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)


def record(
    *,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    partition: int = 0,
    offset: int = 7,
    timestamp_ms: int = FIRST_MS,
) -> ConsumedRecord:
    return ConsumedRecord(
        "orders",
        partition,
        Offset(offset),
        timestamp_ms,
        TimestampType.CREATE_TIME,
        key,
        value,
        headers,
        LeaderEpoch(0),
    )


def produce(broker: Broker, topic: str, records: Sequence[tuple[int, int, bytes]]) -> None:
    """Partition, seconds and value of each."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, seconds, value in records:
        producer.produce(topic, value, partition=partition, timestamp=FIRST_MS + 1_000 * seconds)
    producer.flush()


def test_directives_and_escapes_are_filled_in() -> None:
    one = record(key=b"k", value=b"\xff!", headers=(("a", b"1"), ("b", None)))
    line = parse_format(ALL).line(one, raw=True)
    assert line == b"orders 0 7 k \xff! 1700000000000 a=1,b=NULL 1 2 100%\t\\\n"


def test_null_is_nothing_and_its_length_is_below_zero() -> None:
    assert parse_format("%k|%s|%K|%S|%h").line(record(), raw=True) == b"||-1|-1|"
    assert parse_format("%K|%S").line(record(key=b"", value=b""), raw=True) == b"0|0"


def test_only_fields_are_escaped_for_a_terminal() -> None:
    line = parse_format(r"%s\n").line(record(value=b"a\x1b[2J\nb"), raw=False)
    assert line == b"a\\x1b[2J\\nb\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%q", "'%q' is not known: expected %t, %p, %o, %k, %s, %T, %h, %K, %S or %%"),
        ("100%", "'%' at the end: expected %t"),
        (r"a\q", r"'\q' is not known: expected \n, \r, \t or \\"),
    ],
)
def test_an_unknown_directive_is_refused_in_one_line(run: Run, text: str, said: str) -> None:
    outcome = run(f"consume nowhere --format '{text}'")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert said in outcome.err


def test_records_are_printed_by_a_format_and_by_key(run: Run, penstock: Broker) -> None:
    topic = penstock.topic()
    producer = Producer({"bootstrap.servers": penstock.bootstrap})
    producer.produce(topic, b"v", b"k", timestamp=FIRST_MS, headers=[("h", b"x"), ("n", None)])
    producer.produce(topic, None, b"gone", timestamp=FIRST_MS + 1)
    producer.flush()
    outcome = run(rf"consume {topic} -f '%p/%o %T %k=%s %h\n'")
    assert outcome.lines == ["0/0 1700000000000 k=v h=x,n=NULL", "0/1 1700000000001 gone= "]
    assert run(f"consume {topic} --key-only").lines == ["k", "gone"]
    both = run(f"consume {topic} --key-only --json")
    assert (both.status, both.err.count("\n")) == (2, 1)
    assert "--key-only" in both.err


def test_a_format_on_a_terminal_is_escaped_unless_raw(penstock: Broker) -> None:
    topic = penstock.topic()
    produce(penstock, topic, [(0, 0, b"a\x1b[2Jb")])
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, "-f", r"%o %s\n"]
    for more, expected in ([], b"0 a\\x1b[2Jb\r\n"), (["--raw"], b"0 a\x1b[2Jb\r\n"):
        ours, terminal = pty.openpty()
        subprocess.run([*command, *more], stdout=terminal, check=True, timeout=120)
        os.close(terminal)
        assert os.read(ours, 1000) == expected
        os.close(ours)


def test_the_last_records_of_all_partitions_are_printed_by_their_time(
    run: Run, penstock: Broker
) -> None:
    topic = penstock.topic(partitions=3)
    produce(penstock, topic, [(0, n, b"a%d" % n) for n in range(0, 20, 2)])
    produce(penstock, topic, [(1, n, b"b%d" % n) for n in range(1, 16, 2)])
    assert run(f"consume {topic} --tail 4").lines == ["a14", "b15", "a16", "a18"]
    assert run(f"consume {topic} --tail 2 --partition 1").lines == ["b13", "b15"]
    assert len(run(f"consume {topic} --tail 100").lines) == 18
    assert run(f"consume {topic} --tail 2 --partition 2").lines == []
    refused = run(f"consume {topic} --tail 2 --from earliest")
    assert (refused.status, "give --tail or --from" in refused.err) == (2, True)
    refused = run(f"consume {topic} --tail 2 --group g")
    assert (refused.status, "--tail does not go with --group" in refused.err) == (2, True)


def test_offsets_without_records_do_not_count_as_the_last_ones(run: Run, penstock: Broker) -> None:
    """Markers of transactions take offsets, and so do records that were aborted."""
    topic = penstock.topic()
    produce(penstock, topic, [(0, n, b"%d" % n) for n in range(3)])
    producer = Producer({"bootstrap.servers": penstock.bootstrap, "transactional.id": "t"})
    producer.init_transactions()
    for _ in range(10):
        producer.begin_transaction()
        producer.produce(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
    assert run(f"consume {topic} --tail 2 --committed").lines == ["1", "2"]
    assert run(f"consume {topic} --tail 100 --committed").lines == ["0", "1", "2"]


def test_the_tail_is_followed_by_what_comes(penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    produce(penstock, topic, [(n % 2, n, b"%d" % n) for n in range(6)])
    command = [sys.executable, "-m", "penstock.cli.main", "consume", topic, "--tail", "2"]
    process = subprocess.Popen([*command, "--follow", "--max", "4"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"4\n", b"5\n"]
    produce(penstock, topic, [(0, 6, b"6"), (1, 7, b"7")])
    out, _ = process.communicate(timeout=120)
    assert sorted(out.split()) == [b"6", b"7"]
    assert process.returncode == 0


def test_order_within_a_partition_comes_before_timestamps() -> None:
    """Producers set timestamps, so that they may go back."""
    times = {0: (5, 1, 9), 1: (4, 6)}
    partitions = [
        [record(partition=p, offset=n, timestamp_ms=ms) for n, ms in enumerate(all_ms)]
        for p, all_ms in times.items()
    ]
    found = [(one.partition, one.offset) for one in merged(partitions)]
    assert found == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]
