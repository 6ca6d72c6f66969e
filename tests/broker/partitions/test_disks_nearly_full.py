"""An operator is told of a disk that is nearly full, and again when it has become fuller."""

from pathlib import Path

import pytest

from penstock.broker.partitions.housekeeping import Housekeeping, used_percent_of
from rig.memory_disk import MemoryDisk
from rig.services import Broker

TOTAL_BYTES = 1_000


class SizedDisk(MemoryDisk):
    """One of which a test says how full it is."""

    used_bytes = 0

    def free_bytes(self, path: str) -> int:
        return TOTAL_BYTES - self.used_bytes

    def total_bytes(self, path: str) -> int:
        return TOTAL_BYTES


def test_a_disk_is_told_of_above_80_percent_and_when_it_gets_fuller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SizedDisk()
    broker = Broker(Path("/"), disk=disk)
    keeping = Housekeeping(
        partitions=broker.partitions, settings=broker.settings, world=broker.world
    )
    told = []
    for used_bytes in (0, 799, 800, 801, 849, 850, 700, 800):
        disk.used_bytes = used_bytes
        caplog.clear()
        keeping.warn_of_full_disks()
        told += [(used_bytes, line) for line in caplog.messages]
    assert told == [
        (used_bytes, f"disk nearly full directory=/data used_percent={used_bytes // 10}"
         f" free_bytes={TOTAL_BYTES - used_bytes} total_bytes={TOTAL_BYTES}")
        for used_bytes in (800, 850, 800)
    ]  # fmt: skip


def test_percents() -> None:
    assert used_percent_of(free_bytes=1, total_bytes=1_000) == 99
    assert used_percent_of(free_bytes=0, total_bytes=1_000) == 100
    assert used_percent_of(free_bytes=0, total_bytes=0) == 0
