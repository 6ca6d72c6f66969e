"""The kill switch of a simulated process: once it has tripped, no call of it has an effect.

A crash trips it first and cancels the tasks afterwards, so that no `finally` tidies up what a crash
would not. It may be set to trip at some later call that changes the disk: so a crash comes between
any two of them, not only where the process waits.
"""

import asyncio

from penstock.sim.errors import ProcessKilled


class KillSwitch:
    __slots__ = ("_calls_left", "calls", "checks", "is_tripped", "tripped")

    def __init__(self) -> None:
        self.is_tripped = False
        self.tripped = asyncio.Event()
        self.calls = 0  # that have changed the disk
        self.checks = 0  # calls of any kind
        self._calls_left: int | None = None

    def trip(self) -> None:
        self.is_tripped = True
        self.tripped.set()

    def trip_after(self, calls: int) -> None:
        """Trips at a change of the disk, after so many others."""
        self._calls_left = calls

    def disarm(self) -> None:
        self._calls_left = None

    def check(self) -> None:
        """Before every call: ProcessKilled when the process is gone."""
        self.checks += 1
        if self.is_tripped:
            raise ProcessKilled

    def check_disk_change(self) -> bool:
        """Before every change of the disk; true when this is where the process ends."""
        if self.is_tripped:
            raise ProcessKilled
        self.checks += 1
        self.calls += 1
        if self._calls_left is None:
            return False
        self._calls_left -= 1
        if self._calls_left >= 0:
            return False
        self.trip()
        return True
