"""A client process: it may crash, and is then started anew."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from penstock.sim.clients import Laboratory
from penstock.sim.entropy import stream
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop

Work = Callable[[Laboratory, str, KillSwitch, Random], Coroutine[Any, Any, None]]


class Client:
    """Each life has a name of its own."""

    def __init__(self, kind: str, work: Work, *, lab: Laboratory, loop: SimLoop) -> None:
        self.kind = kind
        self.done = False
        self._work = work
        self._lab = lab
        self._loop = loop
        self._kill_switch = KillSwitch()
        self._lives = 0

    async def run(self) -> None:
        loop, lab = self._loop, self._lab
        while not self.done:
            self._lives += 1
            name = f"{self.kind}.{self._lives}"
            self._kill_switch = kill_switch = KillSwitch()
            chance = stream(lab.scenario.seed, name)
            work = loop.start_for(name, self._work(lab, name, kill_switch, chance), name=name)
            cut = asyncio.ensure_future(kill_switch.tripped.wait())
            await asyncio.wait([work, cut], return_when=asyncio.FIRST_COMPLETED)
            cut.cancel()
            if kill_switch.is_tripped:
                lab.trace.note(name, "crashes")
                for task in loop.tasks_of(name):
                    task.cancel()
                await asyncio.sleep(0.05)
            else:
                self.done = True
                work.result()

    def crash(self) -> None:
        if not self.done:
            self._kill_switch.trip()
