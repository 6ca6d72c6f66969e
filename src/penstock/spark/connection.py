"""Connections to the brokers: `connect` opens a cluster, `run` runs a coroutine to its end.

Spark calls sources and sinks as plain functions, in its own processes and threads, and in a
notebook while an event loop is running. So `run` has one loop for each call: in the calling thread,
or in a new one if that thread already runs a loop. It needs no other threads: at the end of a
program Python starts none, and the open transactions of a query are ended then.
"""

import asyncio
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.client_security import BadSecurity, client_security
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.network.secured_network import secured_network
from penstock.model.settings.setting import InvalidSetting
from penstock.spark.options import BadOption, ConnectionOptions
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.tcp import TcpNetwork

REACH_MS = 15_000  # a broker that starts again is away for less

Result = TypeVar("Result")


def connect(connection: ConnectionOptions, *, create_topics: bool = False) -> Cluster:
    """A connection to the brokers, to be used as `async with`. `create_topics`: brokers may create
    each topic that it asks for.
    """
    settings = dict(connection.kafka)
    try:
        security = client_security(
            settings,
            random_bytes=RealEntropy().random_bytes,
            read_file=lambda path: Path(path).read_text(),
        )
        network = secured_network(settings, TcpNetwork(), RealDisk())
    except BadSecurity as error:
        raise BadOption(f"option kafka.{error}") from error
    except InvalidSetting as error:
        raise BadOption(f"option kafka.{error.name}: {error}") from error
    rules = ClusterRules(
        client_id=connection.setting("client.id") or "penstock-spark",
        request_ms_max=connection.number("request.timeout.ms", 30_000, least=1),
        connect_ms_max=connection.number("socket.connection.setup.timeout.ms", 10_000, least=1),
        reach_ms_max=connection.number("default.api.timeout.ms", REACH_MS),
        create_topics=create_topics,
        security=security,
    )
    return Cluster(network, RealClock(), parse_addresses(connection.bootstrap), rules=rules)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Returns or raises what the coroutine does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock") as thread:
        return thread.submit(_run, work).result()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=WithoutThreads) as runner:
        return runner.run(work)


class WithoutThreads(asyncio.SelectorEventLoop):
    """Looks up names itself, where asyncio would ask a pool of threads."""

    async def getaddrinfo(self, host: Any, port: Any, **rules: Any) -> list[Any]:
        return socket.getaddrinfo(host, port, **rules)
