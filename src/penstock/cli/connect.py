"""A cluster for the length of one command."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from penstock.cli.options import given_command_config
from penstock.client.network.client_settings import read_client_settings
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.connect import BOOTSTRAP, connect

Result = TypeVar("Result")
Handler = Callable[[int, FrameType | None], object] | signal.Handlers
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RULES = ClusterRules(client_id="penstock-cli")


def with_cluster(
    bootstrap: str,
    work: Callable[[Cluster], Awaitable[Result]],
    *,
    rules: ClusterRules = RULES,
    config: Path | None = None,
) -> Result:
    """Connects, does the work, and closes. ClientError when no broker can be reached. `config` is
    for threads other than the command's, which do not know its --command-config.
    """
    config = config or given_command_config()
    settings = {} if config is None else read_client_settings(config)

    async def run() -> Result:
        async with connect({**settings, BOOTSTRAP: bootstrap}, rules=rules) as cluster:
            await cluster.any_channel()
            return await work(cluster)

    return asyncio.run(run())


async def until_interrupted(work: Coroutine[None, None, object]) -> bool:
    """Does the work; False when Ctrl-C, SIGTERM or the end of the terminal ended it, after which
    what it began can be brought to an end. A second Ctrl-C or SIGTERM ends everything, and so does
    any other cancellation.
    """
    with _listening() as heard:
        try:
            await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            if not heard.is_set():
                raise
            task.uncancel()
            return False
        return True


@contextmanager
def _listening() -> Iterator[threading.Event]:
    """Set when a signal came that cancels the task. Handlers that others have set stay, and what is
    ignored, as Ctrl-C in the background of a shell or SIGHUP under nohup, is ignored still.
    """
    heard = threading.Event()
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    before = {number: signal.getsignal(number) for number in ENDING}
    after: dict[signal.Signals, Handler] = {}
    on_interrupt = before[signal.SIGINT]

    def interrupted(number: int, frame: FrameType | None) -> None:
        heard.set()
        # asyncio's handler cancels the main task, and does not say why.
        if callable(on_interrupt):
            on_interrupt(number, frame)

    def ended(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            # Shell and terminal may both send it, and the end under way is not to be cut short.
            after[signal.SIGHUP] = signal.SIG_IGN
        elif heard.is_set():
            raise KeyboardInterrupt
        heard.set()
        loop.call_soon_threadsafe(task.cancel)

    if callable(on_interrupt):
        after[signal.SIGINT] = on_interrupt
        signal.signal(signal.SIGINT, interrupted)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if before[number] is signal.SIG_DFL:
            after[number] = signal.SIG_DFL
            signal.signal(number, ended)
    try:
        yield heard
    finally:
        for number, handler in after.items():
            signal.signal(number, handler)
