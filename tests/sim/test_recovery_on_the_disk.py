"""What recovery cuts off, on a disk that loses power sector by sector."""

from random import Random

from penstock.model.settings.topic import TopicSettings
from penstock.sim.disk import SimDisk
from penstock.sim.file_system import SECTOR_BYTES, FileSystem
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.trace import Trace
from rig.logs import NOW_MS, make_batch, open_log, read

LOG = "/data/orders-0/00000000000000000000.log"
RECORDS = 6
BYTES_MAX = 100_000


def test_batches_behind_a_torn_one_do_not_come_back_amid_those_that_are_written_later() -> None:
    ends = set()
    for seed in range(60):
        disk = disk_on(file_system := FileSystem(Random(seed)))
        filled(disk, epoch=0)
        file_system.process_killed()
        disk.open(LOG).write_at(2 * disk.size(LOG) // RECORDS + 30, b"torn")

        filled(disk := disk_on(file_system), epoch=4)
        file_system.power_lost()
        log = open_log(disk_on(file_system), settings=TopicSettings()).log
        epochs = [int(batch.leader_epoch) for batch in read(log, 0, size_bytes_max=BYTES_MAX)]
        assert epochs in ([0, 0] + [4] * count for count in range(RECORDS)), seed
        ends.add(len(epochs))
    assert ends > {2, RECORDS}


def filled(disk: SimDisk, *, epoch: int) -> None:
    """The log, with as many batches, each of its own sectors; those of the first epoch synced."""
    log = open_log(disk, settings=TopicSettings()).log
    while log.end_offset < RECORDS:
        batch = make_batch(log.end_offset, epoch=epoch, size_bytes=2 * SECTOR_BYTES)
        log.append([batch], now_ms=NOW_MS)
    if epoch == 0:
        log.sync()


def disk_on(file_system: FileSystem) -> SimDisk:
    loop = SimLoop()  # type: ignore[abstract]
    return SimDisk(file_system, KillSwitch(), loop, Trace(loop))
