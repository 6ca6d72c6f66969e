"""A cluster for the length of one command."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

from penstock.cli.command_config import read_client_settings
from penstock.cli.options import given_command_config
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.client_security import client_security
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.secured_network import secured_network
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

Result = TypeVar("Result")
RULES = ClusterRules(client_id="penstock-cli")


def with_cluster(
    bootstrap: str, work: Callable[[Cluster], Awaitable[Result]], *, rules: ClusterRules = RULES
) -> Result:
    """Connects, does the work, and closes. ClientError when no broker can be reached."""
    addresses = parse_addresses(bootstrap)
    config = given_command_config()
    settings = {} if config is None else read_client_settings(config)
    if config is not None:
        security = client_security(
            settings,
            random_bytes=RealEntropy().random_bytes,
            read_file=lambda path: Path(path).read_text(),
        )
        rules = replace(rules, security=security)

    async def run() -> Result:
        network = secured_network(settings, TcpNetwork(), RealDisk())
        async with Cluster(network, RealClock(), addresses, rules=rules) as cluster:
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
