"""What compaction costs those who produce: the time to an ack at 10 MB/s, without it and during it.

    python bench/compaction_latency.py [--fill-mb 2000] [--rate-mb 10] [--seconds 30]

A node is filled with a compacted topic that may not be compacted yet; batches of 64 KiB are then
produced to another topic at a fixed rate, first without compaction and then while it runs, to its
end or for two minutes. A batch that could not leave in time is counted from when it should have.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from asking import PRODUCE_VERSION, Asking, Refused

from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from rig.clients.confluent import ConfluentClient
from rig.serve import ServedNode

MB = 10**6
VALUE_BYTES = 1000
FILL_RECORDS = 1000
KEYS = 100_000
BATCH_RECORDS = 64
COMPACTION_SECONDS_MAX = 120
SEGMENT_BYTES = 128 * MB
# What is left in the end: each key once, and the active segment, which is never compacted.
COMPACTED_BYTES = KEYS * VALUE_BYTES * 1.1 + SEGMENT_BYTES
NOT_YET_MS = 7 * 24 * 3600 * 1000
DICE = random.Random(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fill-mb", type=int, default=2000)
    parser.add_argument("--rate-mb", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=30, help="how long without compaction")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-compaction-") as folder:
        settings = {"log.cleaner.backoff.ms": "500", "log.segment.bytes": str(SEGMENT_BYTES)}
        node = ServedNode(data=Path(folder) / "data", settings=settings)
        node.start()
        try:
            measure(chosen, node)
        finally:
            node.stop()


def measure(chosen: argparse.Namespace, node: ServedNode) -> None:
    host, port = node.bootstrap.rsplit(":", 1)
    client = ConfluentClient(node.bootstrap)
    with Asking((host, int(port))) as asking:
        paced = asking.create_topic("paced", 1)
        table = asking.create_topic("table", 1)
        client.alter_topic(
            "table", {"cleanup.policy": "compact", "min.compaction.lag.ms": str(NOT_YET_MS)}
        )
        fill(asking, table, chosen.fill_mb)
        before = size_of(node, "table-0")
        print(f"filled: {before / MB:,.0f} MB", flush=True)
        batch = batch_of(range(BATCH_RECORDS))
        pace_seconds = len(batch) / (chosen.rate_mb * MB)
        until = time.monotonic() + chosen.seconds
        without = acks(asking, paced, batch, pace_seconds, lambda: time.monotonic() < until)
        show("without compaction", without)
        client.alter_topic("table", {"min.compaction.lag.ms": "0"})
        started = time.monotonic()

        def compacts() -> bool:
            is_done = size_of(node, "table-0") < COMPACTED_BYTES
            return not is_done and time.monotonic() - started < COMPACTION_SECONDS_MAX

        during = acks(asking, paced, batch, pace_seconds, compacts)
        show("during compaction", during)
        ratio = quantile(during, 0.99) / quantile(without, 0.99)
        print(
            f"compaction: {time.monotonic() - started:.1f} s, to "
            f"{size_of(node, 'table-0') / MB:,.0f} MB; p99 {ratio:.2f} × that without"
        )
    client.close()


def fill(asking: Asking, topic_id: bytes, fill_mb: int) -> None:
    batches = [
        batch_of(range(first, first + FILL_RECORDS)) for first in range(0, KEYS, FILL_RECORDS)
    ]
    for number in range(fill_mb * MB // (FILL_RECORDS * VALUE_BYTES)):
        produce(asking, topic_id, batches[number % len(batches)])


def batch_of(keys: range) -> bytes:
    now_ms = int(time.time() * 1000)
    return bytes(
        build_batch(
            [
                Record(b"key-%d" % key, DICE.randbytes(VALUE_BYTES), timestamp_ms=now_ms)
                for key in keys
            ]
        )
    )


def produce(asking: Asking, topic_id: bytes, batch: bytes) -> None:
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    reply = asking.ask(request, ProduceResponse, PRODUCE_VERSION)
    if code := reply.responses[0].partition_responses[0].error_code:
        raise Refused(f"not acked: error {code}")


def acks(
    asking: Asking,
    topic_id: bytes,
    batch: bytes,
    pace_seconds: float,
    goes_on: Callable[[], bool],
) -> list[float]:
    """Milliseconds from when each batch was due to its ack, in ascending order."""
    taken: list[float] = []
    due = time.perf_counter()
    while len(taken) % 50 or goes_on():
        time.sleep(max(0.0, due - time.perf_counter()))
        produce(asking, topic_id, batch)
        taken.append((time.perf_counter() - due) * 1000)
        due += pace_seconds
    return sorted(taken)


def size_of(node: ServedNode, partition: str) -> int:
    """Of the segments that are read; deleted ones wait under another name."""
    folders = node.data.glob(f"*/{partition}/*.log")
    return sum(path.stat().st_size for path in folders if path.exists())


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def show(name: str, ordered: list[float]) -> None:
    shown = ", ".join(f"p{share * 100:g} {quantile(ordered, share):.2f}" for share in (0.5, 0.99))
    print(f"{name}: {len(ordered)} acks, {shown}, most {ordered[-1]:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
