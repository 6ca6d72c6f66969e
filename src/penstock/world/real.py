"""The real world: the ports as the operating system has them."""

from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.offload import ChildProcess, Inline
from penstock.world.ports import World
from penstock.world.tcp import TcpNetwork


def real_world(*, inline: bool = False) -> World:
    """`inline` runs long work in this process, for a node that lives inside somebody's test."""
    disk = RealDisk()
    return World(
        clock=RealClock(),
        entropy=RealEntropy(),
        disk=disk,
        network=TcpNetwork(),
        offload=Inline(disk) if inline else ChildProcess(),
    )
