"""An event loop on virtual time: its clock jumps to the next deadline instead of sleeping.

Callbacks run in the order in which they were asked for, and timers of one moment in the order in
which they were set, so a run depends on nothing but what the callbacks do. There are no threads,
no sockets and no signals: what would need them raises NotImplementedError.

A task belongs to an owner, told by a context variable that tasks inherit from whoever starts them:
so a crash finds every task of one process. Start reading at `SimLoop.run_until_complete`.
"""

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from heapq import heappop, heappush
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from penstock.sim.errors import Deadlock, Livelock, ProcessKilled

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

OWNER: contextvars.ContextVar[str] = contextvars.ContextVar("OWNER", default="nobody")
STEPS_AT_ONE_MOMENT_MAX = 200_000
CLOSE_ROUNDS_MAX = 10
US = 1_000_000


class SimLoop(asyncio.AbstractEventLoop):
    """One simulation runs on one loop, on the thread that calls `run_until_complete`."""

    def __init__(self) -> None:
        self.now_us = 0
        self.steps = 0
        self.alarm_step: int | None = None  # between which two steps `alarm` is to be called
        self.alarm: Callable[[], None] = lambda: None
        self.failures: list[BaseException] = []  # of callbacks, which belong to nobody
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        self._tasks: dict[asyncio.Task[Any], str] = {}  # those alive, in order, with their owners
        self._running = False
        self._closed = False

    # Queries

    def time(self) -> float:
        return self.now_us / US

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
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(self.now_us + round(delay * US), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(round(when * US), callback, args, context)

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
        self, owner: str, coroutine: Coroutine[Any, Any, Result], *, name: str
    ) -> asyncio.Task[Result]:
        """Starts a task that belongs to `owner`, and with it all that it will start."""
        context = contextvars.copy_context()
        context.run(OWNER.set, owner)
        return self.create_task(coroutine, name=name, context=context)

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
        ready = self._ready
        steps = 0
        while ready and not (done is not None and done.done()):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
            steps += 1
            self.steps += 1
            if self.alarm_step is not None and self.steps >= self.alarm_step:
                self.alarm_step = None
                self.alarm()
            if steps > STEPS_AT_ONE_MOMENT_MAX:
                raise Livelock(f"{steps} steps at {self.now_us} us; the last was {handle!r}")

    def _jump(self) -> None:
        """On to the next deadline: all timers of that moment become ready."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers:
            raise Deadlock(f"nothing will ever happen again; these wait: {self._waiting()}")
        self.now_us = max(self.now_us, timers[0][0])
        while timers and timers[0][0] <= self.now_us:
            handle = heappop(timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    def _set_timer(
        self,
        when_us: int,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when_us / US, callback, args, self, context)
        self._timers_set += 1
        heappush(self._timers, (when_us, self._timers_set, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # passed over when its time comes

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def _waiting(self) -> str:
        return "; ".join(f"{owner}: {task.get_name()}" for task, owner in self._tasks.items())
