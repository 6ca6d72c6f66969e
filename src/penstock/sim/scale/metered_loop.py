"""A simulation's loop that knows how much real CPU time the code of each machine takes.

A step belongs to the machine whose code runs in it (`HOST`). What the simulated network and disks
do for a machine while its code calls them is counted as that machine's, in the place of what a
kernel would do; what they do later, and what the simulation itself does, belongs to no machine.
"""

import asyncio
import contextvars
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVarTuple

from penstock.sim.loop import HOST, SimLoop

Arguments = TypeVarTuple("Arguments")


class MeteredLoop(SimLoop):
    def __init__(self) -> None:
        super().__init__()
        self._cpu_ns: Counter[str | None] = Counter()

    def cpu_ns(self) -> Counter[str | None]:
        """CPU time so far, by machine."""
        return self._cpu_ns.copy()

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return super().call_soon(self._metered, callback, args, context=context)

    def _set_timer(
        self,
        when_us: int,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        return super()._set_timer(when_us, self._metered, (callback, args), context)

    def _metered(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        began_ns = time.thread_time_ns()
        try:
            callback(*args)
        finally:
            self._cpu_ns[HOST.get()] += time.thread_time_ns() - began_ns
