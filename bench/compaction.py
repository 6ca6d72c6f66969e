"""How long a compacted topic takes to compact, in how much memory, and whether it comes out right.

    .venv/bin/python bench/compaction.py [--updates 5000000] [--keys 100000] [--codec none]

A log of that many updates is written, every hundredth of them a deletion, and compacted as a broker
does it: by its helper process. Every key is then compared with a dictionary.
"""

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from penstock.broker.partitions.cleaning import Cleaning
from penstock.log.directory import LogDirectory
from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.limit import MIB
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import BrokerSettings, parse_broker
from penstock.model.settings.topic import TopicSettings
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.iterate import records_of
from penstock.records.record import Record
from penstock.replication.partition import Partition
from penstock.world.real import real_world

BATCH_RECORDS = 500
DELETION_EVERY = 100
WATCH_SECONDS = 0.05
PARTITION = TopicPartition("bench", 0)
TOPIC_ID = TopicId(bytes(range(16)))
SETTINGS = TopicSettings(cleanup_policy=frozenset({"compact"}), segment_bytes=64 * MIB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--codec", choices=[codec.name.lower() for codec in Codec], default="none")
    parser.add_argument("--buffer", type=int, default=128 * MIB, help="bytes for the keys")
    parser.add_argument("--directory", type=Path, help="where to write; a temporary one if not")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.directory))
    try:
        measure(chosen, folder)
    finally:
        shutil.rmtree(folder)


def measure(chosen: argparse.Namespace, folder: Path) -> None:
    world = real_world()
    now_ms = world.clock.now_ms()
    directory = LogDirectory.open(disk=world.disk, path=str(folder / "data"))
    log = directory.open_log(
        TopicPartition("bench", 0), TopicId(bytes(16)), SETTINGS, now_ms=now_ms
    )
    known: dict[bytes, bytes] = {}
    for batch in batches(chosen, known, now_ms):
        batch.assign(base_offset=log.end_offset, leader_epoch=LeaderEpoch(0))
        log.append([batch], now_ms=now_ms)
    log.roll()
    log.sync()
    before = size_of(log)
    settings = parse_broker({"log.cleaner.dedupe.buffer.size": str(chosen.buffer)})
    passes, seconds, peak_bytes, cpu_seconds = asyncio.run(compact(log, settings))
    wrong = difference(log, known)
    show(
        [
            ("updates", f"{chosen.updates:,}"),
            ("keys", f"{chosen.keys:,} of which {len(known):,} have a value in the end"),
            ("codec", chosen.codec),
            ("size before", f"{before / MIB:,.1f} MiB"),
            ("size after", f"{size_of(log) / MIB:,.1f} MiB"),
            ("passes", str(passes)),
            ("time", f"{seconds:.2f} s ({before / MIB / seconds:,.0f} MiB/s of log)"),
            ("CPU of the helper", f"{cpu_seconds:.2f} s"),
            ("peak RSS of the helper", f"{peak_bytes / MIB:,.1f} MiB"),
            ("keys that are wrong", str(wrong)),
        ]
    )
    directory.close()


def batches(
    chosen: argparse.Namespace, known: dict[bytes, bytes], now_ms: int
) -> Iterator[BatchView]:
    dice = random.Random(1)
    codec = Codec[chosen.codec.upper()]
    for start in range(0, chosen.updates, BATCH_RECORDS):
        records = []
        for number in range(start, min(start + BATCH_RECORDS, chosen.updates)):
            key = b"key-%08d" % dice.randrange(chosen.keys)
            if number % DELETION_EVERY == 0:
                known.pop(key, None)
                records.append(Record(key, None, timestamp_ms=now_ms))
                continue
            known[key] = value = b"%d " % number + b"x" * 90
            records.append(Record(key, value, timestamp_ms=now_ms))
        yield BatchView(memoryview(build_batch(records, codec=codec)))


async def compact(log: PartitionLog, settings: BrokerSettings) -> tuple[int, float, int, float]:
    """Passes until the log is clean; their number, seconds, and what the helper took."""
    world = real_world()
    partition = Partition(log, leader_epoch=LeaderEpoch(0))
    cleaning = Cleaning(partitions=[partition], settings=lambda: settings, world=world)
    watching = asyncio.create_task(watch_children())
    passes, started = 0, time.monotonic()
    while await cleaning.clean_filthiest():
        passes += 1
    seconds = time.monotonic() - started
    await asyncio.sleep(2 * WATCH_SECONDS)
    watching.cancel()
    peak_bytes, cpu_seconds = await watching
    world.offload.close()
    return passes, seconds, peak_bytes, cpu_seconds


async def watch_children() -> tuple[int, float]:
    peak_bytes, cpu_seconds = 0, 0.0
    try:
        while True:
            for child in psutil.Process().children():
                peak_bytes = max(peak_bytes, child.memory_info().rss)
                times = child.cpu_times()
                cpu_seconds = max(cpu_seconds, times.user + times.system)
            await asyncio.sleep(WATCH_SECONDS)
    except asyncio.CancelledError:
        return peak_bytes, cpu_seconds


def size_of(log: PartitionLog) -> int:
    return sum(segment.size_bytes for segment in log.segments)


def difference(log: PartitionLog, known: dict[bytes, bytes]) -> int:
    """How many keys a reader of the whole log knows otherwise than the dictionary."""
    read: dict[bytes, bytes] = {}
    for batch in log.batches_from(Offset(0)):
        for record in records_of(batch):
            assert record.key is not None
            if record.value is None:
                read.pop(record.key, None)
            else:
                read[record.key] = record.value
    return sum(read.get(key) != known.get(key) for key in read.keys() | known.keys())


def show(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
