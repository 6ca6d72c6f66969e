"""An event loop on virtual time: its clock jumps to the next deadline instead of sleeping.

Callbacks run in the order in which they were asked for, and timers of one moment in the order in
which they were set, so a run depends on nothing but what the callbacks do. There are no threads,
no sockets and no signals: what would need them raises NotImplementedError.

Two context variables, which tasks and callbacks inherit from whoever starts them, say whose they
are: OWNER is a process, so a crash finds every task of it; HOST is a machine, so that a pause holds
every callback of it, and timers keep the time of its clock. What the network and the disks do
belongs to neither: it runs in the context `outside`. Start reading at `SimLoop.run_until_complete`.
"""

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Executor
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from penstock.sim.errors import Deadlock, Livelock, ProcessKilled
from penstock.sim.pace import Pace

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

OWNER: contextvars.ContextVar[str] = contextvars.ContextVar("OWNER", default="nobody")
HOST: contextvars.ContextVar[str | None] = contextvars.ContextVar("HOST", default=None)
STEPS_AT_ONE_MOMENT_MAX = 200_000
CLOSE_ROUNDS_MAX = 10
US = 1_000_000


class Callback(asyncio.Handle):
    """A handle that is cheap to make: without what only a loop in debug mode looks at."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _context: contextvars.Context

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<{self._callback} {self._args}>"


class Timer(asyncio.TimerHandle):
    """The same for a callback at some time."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _context: contextvars.Context
    _when: float

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        context: contextvars.Context | None,
    ) -> None:
        self._when = when_s
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        """Passed over when its time comes."""
        self._cancelled = True
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<{self._callback} {self._args} at {self._when} s>"


Step = Callback | Timer


class _Held:
    """Callbacks of a paused machine: those that were ready, and those whose time has come."""

    __slots__ = ("ready", "timers")

    def __init__(self) -> None:
        self.ready: list[Step] = []
        self.timers: list[Step] = []


class SimLoop(asyncio.AbstractEventLoop):
    """One simulation runs on one loop, on the thread that calls `run_until_complete`."""

    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self.alarm_step: int | None = None  # between which two steps `alarm` is to be called
        self.alarm: Callable[[], None] = lambda: None
        self.failures: list[BaseException] = []  # of callbacks, which belong to nobody
        self.outside = contextvars.Context()  # of callbacks that belong to no process
        self.paces: dict[str, Pace] = {}  # of machines whose monotonic clock is not virtual time
        self._ready: deque[Step] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timers_set = 0
        self._tasks: dict[asyncio.Task[Any], str] = {}  # those alive, in order, with their owners
        self._paused: dict[str, _Held] = {}  # by machine
        self._running = False
        self._closed = False

    # Queries

    def time(self) -> float:
        """As the clock of the machine shows whose code is running."""
        pace = self._pace_of(None) if self.paces else None
        return (self.now_us if pace is None else pace.shown_us(self.now_us)) / US

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def tasks_of(self, owner: str) -> list[asyncio.Task[Any]]:
        """The tasks of one owner that have not ended, in the order they were started."""
        return [task for task, owned_by in self._tasks.items() if owned_by == owner]

    # Scheduling

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = Callback(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        pace = self._pace_of(context) if self.paces else None
        if pace is None:
            when_us = self.now_us + round(delay * US)
        else:
            when_us = pace.reached_us(pace.shown_us(self.now_us) + round(delay * US))
        return self._set_timer(when_us, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        pace = self._pace_of(context) if self.paces else None
        when_us = round(when * US) if pace is None else pace.reached_us(round(when * US))
        return self._set_timer(when_us, callback, args, context)

    def call_outside(self, delay_us: int, callback: Callable[..., object], *args: object) -> None:
        """What the network or a disk does after a while, whatever becomes of the processes."""
        self._set_timer(self.now_us + delay_us, callback, args, self.outside)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Result]:
        assert isinstance(coro, Coroutine)
        owner = OWNER.get() if context is None else context.get(OWNER, "nobody")
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = owner
        task.add_done_callback(self._forget)
        return task

    def start_for(
        self,
        owner: str,
        coroutine: Coroutine[Any, Any, Result],
        *,
        name: str,
        host: str | None = None,
    ) -> asyncio.Task[Result]:
        """Starts a task that belongs to `owner`, and with it all that it will start."""
        context = contextvars.copy_context()
        context.run(OWNER.set, owner)
        context.run(HOST.set, host)
        return self.create_task(coroutine, name=name, context=context)

    # Machines

    def is_paused(self, host: str) -> bool:
        return host in self._paused

    def pause(self, host: str) -> None:
        """From now on no callback of this machine runs."""
        self._paused.setdefault(host, _Held())

    def resume(self, host: str, *, timers_first: bool = False) -> None:
        """What was held runs now: what had become ready, and all timers that are late, in the order
        of their deadlines. asyncio takes up what is ready first; other loops begin with timers.
        """
        held = self._paused.pop(host, None)
        if held is None:
            return
        first, then = (held.timers, held.ready) if timers_first else (held.ready, held.timers)
        self._ready.extend(first)
        self._ready.extend(then)

    def drop(self, owner: str) -> None:
        """Forgets the callbacks and timers of a process that has ended."""

        def is_other(step: Step) -> bool:
            return step._context.get(OWNER) != owner

        # In place: this is asked for by a callback, while the loop goes through them.
        kept = list(filter(is_other, self._ready))
        self._ready.clear()
        self._ready.extend(kept)
        self._timers[:] = [timer for timer in self._timers if is_other(timer[2])]
        heapify(self._timers)
        for held in self._paused.values():
            held.ready = list(filter(is_other, held.ready))
            held.timers = list(filter(is_other, held.timers))

    # Running

    def run_until_complete(
        self, future: Generator[Any, None, Result] | Awaitable[Result]
    ) -> Result:
        """Runs until the future is done. Deadlock when it never can be."""
        assert not self._running
        assert isinstance(future, Coroutine), "a simulation is one coroutine"
        done: asyncio.Task[Result] = self.create_task(future, name="simulation")
        self._running = True
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not done.done():
                self._run_moment(done)
                if not done.done():
                    self._jump()
        finally:
            self._running = False
            events._set_running_loop(before)
        return done.result()

    def stop(self) -> None:
        raise NotImplementedError("a simulation ends with its future")

    def close(self) -> None:
        """Ends all tasks that are still alive and forgets everything."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for host in list(self._paused):
                self.resume(host)
            for _ in range(CLOSE_ROUNDS_MAX):
                for task in list(self._tasks):
                    task.cancel()
                self._run_moment(None)
        finally:
            events._set_running_loop(before)
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self) -> None:
        pass

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> NoReturn:
        raise NotImplementedError("no threads in a simulation: go through a port")

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> NoReturn:
        raise NotImplementedError("no threads in a simulation")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback failed; or a task that nobody asked about, which its owner's end explains."""
        failure = context.get("exception")
        if "handle" in context and not isinstance(failure, ProcessKilled | None):
            self.failures.append(failure)

    # Parts

    def _run_moment(self, done: asyncio.Future[Any] | None) -> None:
        """Runs all that is ready now, and what that makes ready at the same moment."""
        ready, paused = self._ready, self._paused
        steps_max = self.steps + STEPS_AT_ONE_MOMENT_MAX
        while ready and not (done is not None and done.done()):
            step = ready.popleft()
            if paused and (held := self._held_for(step)) is not None:
                held.ready.append(step)
                continue
            if step._callback is not None:
                try:
                    step._context.run(step._callback, *step._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"exception": error, "handle": step})
            self.steps += 1
            if self.alarm_step is not None and self.steps >= self.alarm_step:
                self.alarm_step = None
                self.alarm()
            if self.steps > steps_max:
                raise Livelock(
                    f"{STEPS_AT_ONE_MOMENT_MAX} steps at {self.now_us} us; the last was {step!r}"
                )

    def _jump(self) -> None:
        """On to the next deadline: all timers of that moment become ready."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            raise Deadlock(f"nothing will ever happen again; these wait: {self._waiting()}")
        self.now_us = max(self.now_us, timers[0][0])
        while timers and timers[0][0] <= self.now_us:
            timer = heappop(timers)[2]
            if timer._cancelled:
                continue
            if self._paused and (held := self._held_for(timer)) is not None:
                held.timers.append(timer)
            else:
                self._ready.append(timer)

    def _set_timer(
        self,
        when_us: int,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        handle = Timer(when_us / US, callback, args, context)
        self._timers_set += 1
        heappush(self._timers, (when_us, self._timers_set, handle))
        return handle

    def _pace_of(self, context: contextvars.Context | None) -> Pace | None:
        host = HOST.get() if context is None else context.get(HOST)
        return None if host is None else self.paces.get(host)

    def _held_for(self, step: Step) -> _Held | None:
        host = step._context.get(HOST)
        return None if host is None else self._paused.get(host)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def _waiting(self) -> str:
        return "; ".join(f"{owner}: {task.get_name()}" for task, owner in self._tasks.items())
