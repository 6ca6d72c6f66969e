"""`penstock perf` against a broker: it measures what it says, and says when it cannot."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.cli import perf
from penstock.cli.perf_figures import Figures, quantile
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.testing import Broker

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def at_broker(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)


def test_every_record_produced_is_acked_and_counted(run: Run, penstock: Broker) -> None:
    topic = penstock.topic(partitions=3)
    told = run(f"perf produce {topic} --records 500 --size 100 --compression lz4 --json").json()
    assert told["records"] == 500
    assert told["records_per_second"] > 0
    assert 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["p99"] <= told["latency_ms"]["max"]
    assert len(run(f"consume {topic} --json").lines) == 500


def test_a_rate_is_kept(run: Run, penstock: Broker) -> None:
    topic = penstock.topic()
    told = run(f"perf produce {topic} --records 50 --rate 100 --acks 1 --json").json()
    assert told["seconds"] >= 0.49


def test_consume_reads_all_that_is_there_or_as_many_as_asked(run: Run, penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    run(f"perf produce {topic} --records 300 --size 50")
    told = run(f"perf consume {topic} --json").json()
    assert told["records"] == 300
    assert run(f"perf consume {topic} --records 120 --json").json()["records"] == 120


def test_an_empty_topic_is_read_at_once(run: Run, penstock: Broker) -> None:
    assert run(f"perf consume {penstock.topic()} --json").json()["records"] == 0


def test_latency_is_from_send_to_receipt(run: Run, penstock: Broker) -> None:
    topic = penstock.topic(partitions=2)
    told = run(f"perf latency {topic} --rate 100 --seconds 1 --json").json()
    assert told["records"] == 100
    assert 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["p99.9"]


def test_latency_passes_over_records_of_others(
    run: Run, penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in the midst of ours, since it reads from the end."""
    topic = penstock.topic()
    send_stamped = perf.send_stamped

    async def send_among_others(producer: Producer, topic: str, **sizes: int) -> None:
        for value in (None, b"", b"short", b"y" * 1_000, b"z" * 2_000):
            await producer.send(topic, value)
        await send_stamped(producer, topic, **sizes)

    monkeypatch.setattr(perf, "send_stamped", send_among_others)
    told = run(f"perf latency {topic} --rate 50 --seconds 1 --json").json()
    assert told["records"] == 50
    assert 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["max"] < 60_000


def test_people_get_a_line(run: Run, penstock: Broker) -> None:
    produced = run(f"perf produce {penstock.topic()} --records 10 --size 10")
    assert produced.status == 0
    assert produced.text.startswith("10 records in ")
    assert "latency p50" in produced.text


def test_an_unknown_topic_is_said_in_one_line(run: Run) -> None:
    refused = run("perf produce nowhere --records 1")
    assert (refused.status, refused.err.count("\n")) == (1, 1)


def test_what_was_accepted_is_written_and_counted_when_the_buffer_stays_full(
    run: Run, penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six records fit into the buffer, and make no batch that would be sent by itself."""
    topic = penstock.topic()
    producer_rules = perf.producer_rules

    def impatient(acks: str, batches: BatchRules) -> ProducerRules:
        batches = replace(batches, buffer_bytes_max=batches.batch_bytes_max)
        return replace(producer_rules(acks, batches), block_ms_max=200)

    monkeypatch.setattr(perf, "producer_rules", impatient)
    failed = run(f"perf produce {topic} --size 10000 --batch-bytes 65536 --linger-ms 60000")
    assert failed.status == 1
    assert failed.err.startswith("penstock: no room for ")
    assert failed.err.endswith(f"(produced 6 records to {topic})\n")
    assert len(run(f"consume {topic}").lines) == 6


def test_a_quantile_is_a_value_that_was_seen() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert quantile(ordered, 0.5) == 50
    assert quantile(ordered, 0.99) == 99
    assert quantile(ordered, 0.999) == 100
    assert quantile([7.0], 0.5) == 7


def test_figures_without_latencies_tell_none() -> None:
    figures = Figures()
    figures.add(value_bytes=10)
    figures.end()
    assert "latency_ms" not in figures.summary()
    assert "latency" not in figures.line()
