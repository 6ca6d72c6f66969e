"""Any process on a simulated machine: `main` on a World, crashed and started again as asked for.

A life ends when `main` returns, with a crash, or with an error of its own, which ends the
simulation. `SimNode` is the same for a real node. Start reading at `SimProcess.keep_alive`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.sim.host import Crash, Host
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.trace import Trace
from penstock.world.ports import World

Main = Callable[[World], Coroutine[Any, Any, None]]


class SimProcess:
    def __init__(self, host: Host, main: Main, *, trace: Trace) -> None:
        self.host = host
        self.lives = 0
        self.done = False  # main has returned
        self._main = main
        self._trace = trace
        self._kill_switch = KillSwitch()
        self._crash = Crash.KILL
        self._may_start = asyncio.Event()
        self._may_start.set()

    async def keep_alive(self) -> None:
        """Life after life, until main returns."""
        while not self.done:
            await self._may_start.wait()
            await self._live()

    def crash(self, kind: Crash) -> None:
        """Now, between two steps. It starts again at once, unless it is kept down."""
        self._crash = kind
        self._kill_switch.trip()

    def crash_in_a_call(self, kind: Crash, *, calls: int) -> None:
        """Within a change of the disk, after so many others."""
        self._crash = kind
        self._kill_switch.trip_after(calls)

    def disarm(self) -> None:
        """A crash in a call that has not come yet will not come."""
        self._kill_switch.disarm()

    def stop(self) -> None:
        """It has nothing to close: what it leaves is what a kill leaves."""
        self.crash(Crash.KILL)

    def keep_down(self) -> None:
        """After its next end it does not start again until `let_start`."""
        self._may_start.clear()

    def let_start(self) -> None:
        self._may_start.set()

    async def _live(self) -> None:
        self.lives += 1
        owner = f"{self.host.name} {self.lives}"
        self._kill_switch = kill_switch = KillSwitch()
        self.host.power_on()
        self._trace.note(self.host.name, f"starts, life {self.lives}")
        main = self.host.start(owner, self._main(self.host.world(kill_switch)), name="main")
        tripped = asyncio.ensure_future(kill_switch.tripped.wait())
        try:
            await asyncio.wait([main, tripped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            tripped.cancel()
        if not kill_switch.is_tripped:
            self.done = True
            await self.host.end_tasks(owner)
            main.result()
            return
        kind = self._crash
        self._trace.note(self.host.name, f"crashes: {kind.value}")
        self.host.lose_connections(kind)
        await self.host.end_tasks(owner)
        self.host.lose_memory(kind)
