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
from dataclasses import replace
from typing import Any, TypeVar

from penstock.client.network import connect as client
from penstock.client.network.client_security import BadSecurity
from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.model.settings.setting import InvalidSetting
from penstock.spark.options import BadOption, ConnectionOptions

RULES = ClusterRules(
    client_id="penstock-spark",
    reach_ms_max=15_000,  # a broker that starts again is away for less
)

Result = TypeVar("Result")


def connect(connection: ConnectionOptions, *, create_topics: bool = False) -> Cluster:
    """A connection to the brokers, to be used as `async with`. `create_topics`: brokers may create
    each topic that it asks for.
    """
    settings = {**dict(connection.kafka), client.BOOTSTRAP: connection.bootstrap}
    try:
        return client.connect(settings, rules=replace(RULES, create_topics=create_topics))
    except BadSecurity as error:
        raise BadOption(f"option kafka.{error}") from error
    except InvalidSetting as error:
        raise BadOption(f"option kafka.{error.name}: {error}") from error


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
