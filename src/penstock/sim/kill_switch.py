"""What ties a process to its world: once it is cut, no call of the process reaches anything.

A crash cuts the tether first and cancels the tasks afterwards, so that no `finally` tidies up what
a crash would not. It may be set to tear at some later call that changes the disk: so a crash
comes between any two of them, not only where the process waits.
"""

import asyncio

from penstock.sim.errors import Severed


class Tether:
    __slots__ = ("_calls_left", "calls", "cut", "is_cut")

    def __init__(self) -> None:
        self.is_cut = False
        self.cut = asyncio.Event()
        self.calls = 0  # that have changed the disk
        self._calls_left: int | None = None

    def sever(self) -> None:
        self.is_cut = True
        self.cut.set()

    def sever_after(self, calls: int) -> None:
        """Tears at a change of the disk, after so many others."""
        self._calls_left = calls

    def disarm(self) -> None:
        self._calls_left = None

    def hold(self) -> None:
        """Before every call: Severed when the process is gone."""
        if self.is_cut:
            raise Severed

    def strain(self) -> bool:
        """Before every change of the disk; true when this is where the process ends."""
        if self.is_cut:
            raise Severed
        self.calls += 1
        if self._calls_left is None:
            return False
        self._calls_left -= 1
        if self._calls_left >= 0:
            return False
        self.sever()
        return True
