"""What a single node tells in its traces, and that it loses nothing else by them."""

import asyncio
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.limit import TRACING_SPANS_WAITING_MAX
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.node.build import OpenNode
from penstock.wire.header import encode_request
from penstock.world.disk import RealDisk
from penstock.world.ports import File
from rig.cluster_questions import until
from rig.data_requests import produce_request
from rig.dialogue import Dialogue
from rig.held_port import HeldPort
from rig.produced import produced
from rig.running_node import RunningNode, running_node
from rig.scraping import Scraped, scrape
from rig.trace_receiver import ReceivedSpan, TraceReceiver, trace_receiver

WAIT_SECONDS = 60
THREAD = "traces"
SPANS = "penstock_tracing_spans_total"
TIMED = "kafka_network_requestmetrics_totaltimems_count"
COUNT = "messaging.batch.message_count"


@contextmanager
def traced_node(
    data: Path, endpoint: str, *, disk: RealDisk | None = None, **settings: str
) -> Iterator[RunningNode]:
    given = {
        "penstock_tracing_endpoint": endpoint,
        "penstock_tracing_sample": "1",
        "penstock_metrics_address": "0",
        **settings,
    }
    with running_node(data, disk=disk, **given) as node:
        yield node


def told_by(node: RunningNode) -> Scraped:
    return scrape(f"http://{node.node.metrics_address}/metrics")


def create(node: RunningNode, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [made] = admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values()
    made.result(WAIT_SECONDS)


def write(node: RunningNode, topic: str, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"v")
        assert producer.flush(WAIT_SECONDS) == 0


def named(spans: list[ReceivedSpan], name: str = "produce") -> list[ReceivedSpan]:
    return [one for one in spans if one.name == name]


def parts_of(receiver: TraceReceiver, produce: ReceivedSpan) -> list[str]:
    trace = receiver.of(produce.trace_id)
    return [one.name for one in trace if one.parent_id == produce.span_id]


def until_produced(receiver: TraceReceiver, count: int) -> list[ReceivedSpan]:
    def is_so(spans: list[ReceivedSpan]) -> bool:
        return len(named(spans)) >= count

    return named(receiver.until(f"{count} produce spans", is_so))


def end_of(node: RunningNode, topic: str) -> int:
    inside = node.node._running
    assert isinstance(inside, OpenNode)
    log = inside.log_of(TopicPartition(topic, 0))
    return 0 if log is None else log.end_offset


class SlowDisk(RealDisk):
    """Its syncs take as long as a test says."""

    sync_seconds = 0.0

    async def sync(self, files: Sequence[File]) -> None:
        await asyncio.sleep(self.sync_seconds)
        await super().sync(files)


def test_an_ack_that_waits_for_nobody_has_no_part_for_replicas(tmp_path: Path) -> None:
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url) as node:
        create(node, "orders")
        write(node, "orders")
        [produce] = until_produced(receiver, 1)
        assert parts_of(receiver, produce) == ["queue", "append", "send"]
        until("they count as exported", lambda: told_by(node)(SPANS, outcome="exported") == 4)
        told = told_by(node)
        assert told(SPANS, outcome="dropped") == told(SPANS, outcome="failed") == 0
        # Requests that are timed for their trace alone are not among those that are counted.
        write(node, "orders", 5)
        until_produced(receiver, 6)
        assert told_by(node)(TIMED, request="Produce") == 1


def test_a_request_with_batches_of_several_partitions_is_in_the_trace_of_each(
    tmp_path: Path,
) -> None:
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url) as node:
        dialogue = Dialogue(node.bootstrap, "orders")
        dialogue.create_topic(partitions=2)
        request = produce_request("orders", produced())
        [topic] = request.topic_data
        topic.partition_data += (
            produce_request("orders", produced(3), index=1).topic_data[0].partition_data
        )
        dialogue.exchange(request, version=9)
        first, second = until_produced(receiver, 2)
        assert first.trace_id != second.trace_id
        assert (first.start_ns, first.end_ns) == (second.start_ns, second.end_ns)
        assert [one.attributes[COUNT] for one in (first, second)] == [1, 3]


def test_a_batch_that_is_sent_again_has_a_span_for_each_request(tmp_path: Path) -> None:
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url) as node:
        dialogue = Dialogue(node.bootstrap, "orders")
        dialogue.create_topic(partitions=1)
        for _ in range(3):
            batch = produced(producer_id=1, epoch=0, sequence=0)
            dialogue.exchange(produce_request("orders", batch), version=9)
        spans = until_produced(receiver, 3)
        assert len({one.trace_id for one in spans}) == 1
        assert len({one.span_id for one in spans}) == 3
        assert sorted(one.attributes.get("penstock.duplicate", 0) for one in spans) == [0, 1, 1]


def test_an_ack_that_does_not_come_in_time_is_an_error(tmp_path: Path) -> None:
    disk = SlowDisk()
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url, disk=disk) as node:
        create(node, "synced", **{"penstock.ack.fsync": "true"})
        disk.sync_seconds = 3
        dialogue = Dialogue(node.bootstrap, "synced")
        for version in (9, 8):  # by the shortcut, and without
            reply = dialogue.exchange(
                produce_request("synced", produced(), timeout_ms=100), version=version
            )
            [answer] = reply.responses[0].partition_responses
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        disk.sync_seconds = 0
        spans = until_produced(receiver, 2)
        for one in spans:
            assert one.error == one.attributes["error.type"] == "REQUEST_TIMED_OUT"
            assert parts_of(receiver, one) == ["queue", "append", "replicas", "send"]


def test_a_producer_that_has_gone_before_its_ack_leaves_a_span(tmp_path: Path) -> None:
    disk = SlowDisk()
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url, disk=disk) as node:
        create(node, "synced", **{"penstock.ack.fsync": "true"})
        disk.sync_seconds = 3
        host, port = node.bootstrap.rsplit(":", 1)
        parts = encode_request(
            produce_request("synced", produced()), version=9, correlation_id=1, client_id="gone"
        )
        with socket.create_connection((host, int(port)), WAIT_SECONDS) as client:
            client.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]
            until("it is in the log", lambda: end_of(node, "synced") == 1)
        [produce] = until_produced(receiver, 1)
        assert produce.error == "connection closed"
        assert produce.attributes["messaging.client.id"] == "gone"
        disk.sync_seconds = 0


def test_a_part_of_all_batches_is_traced(tmp_path: Path) -> None:
    with (
        trace_receiver() as receiver,
        traced_node(tmp_path, receiver.url, penstock_tracing_sample="0.1") as node,
    ):
        dialogue = Dialogue(node.bootstrap, "orders")
        dialogue.create_topic(partitions=1)
        for _ in range(500):
            dialogue.exchange(produce_request("orders", produced()), version=9)
        until_produced(receiver, 20)
    assert 20 <= len(named(receiver.spans)) <= 100


def has_failed(node: RunningNode, spans: int) -> bool:
    return told_by(node)(SPANS, outcome="failed") == spans


def test_a_receiver_that_is_away_harms_nothing_and_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    nobody = HeldPort()
    with traced_node(tmp_path, f"http://{nobody.address}/v1/traces") as node:
        create(node, "orders")
        for number in (1, 2):
            write(node, "orders")
            until("it has failed", partial(has_failed, node, 4 * number))
    lines = [one for one in caplog.messages if one.startswith("traces are not exported")]
    assert len(lines) == 1
    assert f"endpoint=http://{nobody.address}/v1/traces" in lines[0]
    assert "refused" in lines[0]
    assert not [one for one in caplog.records if one.name.startswith("opentelemetry")]


def test_a_receiver_that_hangs_costs_spans_and_nothing_else(tmp_path: Path) -> None:
    with trace_receiver() as receiver, traced_node(tmp_path, receiver.url) as node:
        receiver.answering.clear()
        dialogue = Dialogue(node.bootstrap, "orders")
        dialogue.create_topic(partitions=1)
        batches = TRACING_SPANS_WAITING_MAX // 2  # of four spans each
        for _ in range(batches):
            reply = dialogue.exchange(produce_request("orders", produced(), acks=1), version=9)
            assert reply.responses[0].partition_responses[0].error_code == 0
        told = told_by(node)
        assert told(SPANS, outcome="dropped") > 0
        assert told("penstock_tracing_spans_waiting") <= TRACING_SPANS_WAITING_MAX
        receiver.answering.set()

        def all_are_counted() -> bool:
            told = told_by(node)
            outcomes = ("exported", "failed", "dropped")
            return sum(told(SPANS, outcome=one) for one in outcomes) == 4 * batches

        until("each span is exported, failed or dropped", all_are_counted)


LOADED = """
import sys, threading
from pathlib import Path
sys.path.append(sys.argv[2])
from rig.running_node import running_node
with running_node(Path(sys.argv[1]), penstock_tracing_endpoint=sys.argv[3]):
    names = ("opentelemetry", "penstock.node.tracing", "penstock.tracing.sampling",
             "penstock.broker.request.request_tracing")
    print([name in sys.modules for name in names],
          [one.name for one in threading.enumerate()].count("traces"))
"""


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9"])
def test_nothing_of_it_is_loaded_or_runs_where_it_is_off(tmp_path: Path, endpoint: str) -> None:
    tests = str(Path(__file__).resolve().parents[1])
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "data"), tests, endpoint],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    is_on = bool(endpoint)
    assert outcome.stdout.strip() == f"{[is_on] * 4} {int(is_on)}"


def test_the_thread_ends_with_its_node(tmp_path: Path) -> None:
    def threads() -> int:
        return [one.name for one in threading.enumerate()].count(THREAD)

    with trace_receiver() as receiver:
        with traced_node(tmp_path, receiver.url):
            assert threads() == 1
        until("it has ended", lambda: threads() == 0)


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None
from penstock.cli.main import main
main()
"""


def test_a_node_without_the_library_says_in_one_line_what_to_install(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [
            *(sys.executable, "-c", WITHOUT, "serve", "--data", str(tmp_path / "data")),
            *("--listen", "127.0.0.1:0", "--set", "penstock.tracing.endpoint=http://127.0.0.1:9"),
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert outcome.returncode != 0
    [line] = [one for one in outcome.stderr.splitlines() if "penstock[tracing]" in one]
    assert "penstock.tracing.endpoint" in line
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://a/", "http://user:secret@a/"])
def test_what_is_no_address_of_the_web_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidSetting, match=r"penstock\.tracing\.endpoint"):
        parse_broker({"penstock.tracing.endpoint": endpoint})
