"""A loop on a thread of its own, for plain functions that wait for what goes on beside them.

Spark calls a reader as a plain function or generator, perhaps in a thread whose own loop is busy.
Replies come in on this thread while the caller decodes the ones before; timers and connections
live on between two calls.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

FINISH_SECONDS_MAX = 10

Result = TypeVar("Result")


class Background:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon: a worker that Spark ends is not held up by a query that nobody stopped.
        self._thread = threading.Thread(target=self._run, name="penstock", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What the work returns or raises, once it has ended."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def finish(self, work: Coroutine[Any, Any, object]) -> None:
        """What is to be done at the end. It is not waited for without end: where the interpreter
        is on its way out, the thread may have stopped already.
        """
        if not self._thread.is_alive():
            work.close()
            return
        ending = asyncio.run_coroutine_threadsafe(work, self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(FINISH_SECONDS_MAX)

    def close(self) -> None:
        """Ends the loop; whoever opened something on it has closed it."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(FINISH_SECONDS_MAX)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
