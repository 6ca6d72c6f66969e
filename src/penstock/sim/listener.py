"""A port of a simulated machine that a process listens on."""

import contextvars
from collections.abc import Callable

from penstock.sim.kill_switch import KillSwitch
from penstock.world.ports import Address, Stream


class SimListener:
    """See `Listener` in ports."""

    def __init__(self, address: Address, kill_switch: KillSwitch) -> None:
        self.address = address
        self.kill_switch = kill_switch
        self.accept: Callable[[Stream], None] | None = None
        self.is_closed = False
        # What it starts belongs to the process that listens, not to the one that connects.
        self.context = contextvars.copy_context()

    def listen(self, accept: Callable[[Stream], None]) -> None:
        self.kill_switch.check()
        self.accept = accept

    def close(self) -> None:
        self.is_closed = True
