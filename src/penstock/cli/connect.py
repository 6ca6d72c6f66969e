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
    """Does the work; False when Ctrl-C ended it, after which what it began can be brought to an
    end. A second Ctrl-C ends everything, and so does any other cancellation.
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
    """Set when Ctrl-C came. asyncio cancels the main task then, and does not say why."""
    heard = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # ignored, as in the background of a shell
        yield heard
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        heard.set()
        before(number, frame)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)
