"""The stores of a table's latest rows, asked in one way: what they show and what they remember."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from penstock.spark.connection import connect, run
from penstock.spark.options import ConnectionOptions
from penstock.spark.pipelines.cdc.follower import RowStore, follow
from penstock.spark.pipelines.cdc.redis_cache import RedisCache
from penstock.spark.pipelines.cdc.search_index import SearchIndex
from rig.redis_server import RedisServer

Rows = dict[str, dict[str, object]]


def follow_into(
    store: RowStore, bootstrap: str, topic: str, goes_on: Callable[[], bool] = lambda: False
) -> int:
    async def work() -> int:
        async with connect(ConnectionOptions(bootstrap=bootstrap)) as cluster:
            return await follow(cluster, topic, store, goes_on)

    return run(work())


class KeptRows(Protocol):
    def open(self) -> RowStore:
        """As a follower that starts does."""
        ...

    def rows(self) -> Rows:
        """What those see who ask the store."""
        ...

    def remembered(self) -> set[str]:
        """Keys that have a place, of rows that are gone too."""
        ...

    def empty(self) -> None:
        """As `how_to_empty` says."""
        ...


class KeptIndex:
    def __init__(self, file: Path, *, topic: str) -> None:
        self._file = file
        self._topic = topic

    def open(self) -> SearchIndex:
        return SearchIndex(self._file, topic=self._topic)

    def rows(self) -> Rows:
        with closing(sqlite3.connect(self._file)) as base:
            found = base.execute("SELECT key, row FROM rows WHERE row IS NOT NULL").fetchall()
        return {key: json.loads(row) for key, row in found}

    def remembered(self) -> set[str]:
        with closing(sqlite3.connect(self._file)) as base:
            return {key for (key,) in base.execute("SELECT key FROM rows")}

    def empty(self) -> None:
        self._file.unlink()


class KeptCache:
    def __init__(self, server: RedisServer, *, name: str) -> None:
        self._server = server
        self._name = name

    def open(self) -> RedisCache:
        return RedisCache(self._server.url, name=self._name)

    def rows(self) -> Rows:
        client, begin = self._server.client(), f"{self._name}:"
        keys = [str(key) for key in client.scan_iter(f"{begin}*")]
        return {key.removeprefix(begin): json.loads(client.get(key) or "") for key in keys}

    def remembered(self) -> set[str]:
        return {str(key) for key in self._server.client().hkeys(f"penstock:{self._name}:places")}

    def empty(self) -> None:
        client = self._server.client()
        for pattern in (f"{self._name}:*", f"penstock:{self._name}", f"penstock:{self._name}:*"):
            for key in client.scan_iter(pattern):
                client.delete(key)
