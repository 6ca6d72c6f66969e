"""The real world: the ports as the operating system has them."""

from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.offload import ChildProcess, Inline
from penstock.world.ports import World
from penstock.world.tcp import TcpNetwork

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def real_world(*, inline: bool = False) -> World:
    """`inline` runs long work in this process, for a node that lives inside somebody's test."""
    disk = RealDisk()
    return World(
        clock=RealClock(),
        entropy=RealEntropy(),
        disk=disk,
        network=TcpNetwork(),
        offload=Inline(disk) if inline else ChildProcess(),
        boot_id=read_boot_id(),
    )


def read_boot_id() -> str:
    """Linux has one; elsewhere it is unknown."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
