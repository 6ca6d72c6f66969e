"""A cache of the latest rows of a table, in a server of Redis, or any that speaks its protocol.

    NAME:KEY             the row as JSON
    penstock:NAME        a hash: the next offset of each partition
    penstock:NAME:places a hash: the place of each key's last change, of rows that are gone too

NAME is the topic, unless another is given. Rows, places and offsets change in one MULTI ... EXEC.
A server that has lost its memory has lost the offsets too, and is filled from the first record.
"""

import json
from collections.abc import Mapping

import redis
from redis.client import Pipeline

from penstock.model.error import PenstockError
from penstock.spark.pipelines.cdc.latest_rows import Place, Row, latest

SECONDS_MAX = 10


class CacheUnreachable(PenstockError):
    """The server does not answer."""


class CacheChanged(PenstockError):
    """The server has been emptied, or another follower writes to it: begin where it is now."""


class RedisCache:
    def __init__(self, url: str, *, name: str) -> None:
        self._name = name
        self._offsets = f"penstock:{name}"
        self._places = f"penstock:{name}:places"
        self._read: dict[int, int] = {}  # the offsets that the server has, as far as we know
        try:
            self._server: redis.Redis = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=SECONDS_MAX,
                socket_connect_timeout=SECONDS_MAX,
            )
        except ValueError as error:
            raise CacheUnreachable(f"{url!r} is no address of a cache: {error}") from error

    def positions(self) -> dict[int, int]:
        try:
            self._read = _numbers(self._server.hgetall(self._offsets))
        except redis.RedisError as error:
            raise CacheUnreachable(f"the cache does not answer: {error}") from error
        return dict(self._read)

    def write(self, rows: list[Row], positions: Mapping[int, int]) -> None:
        try:
            with self._server.pipeline(transaction=True) as steps:
                self._write(steps, rows, positions)
        except redis.WatchError as error:
            raise self._changed() from error
        except redis.RedisError as error:
            raise CacheUnreachable(f"the cache does not take rows: {error}") from error
        self._read = dict(positions)

    def _write(self, steps: Pipeline, rows: list[Row], positions: Mapping[int, int]) -> None:
        # The client connects again by itself. What was watched is then no longer as it was.
        steps.watch(self._offsets)  # type: ignore[no-untyped-call] # it has no types
        if _numbers(steps.hgetall(self._offsets)) != self._read:
            raise self._changed()
        taken = latest(rows, self._known(steps, sorted({row.key for row in rows})))
        steps.multi()
        for row in taken:
            key = f"{self._name}:{row.key}"
            if row.fields is None:
                steps.delete(key)
            else:
                steps.set(key, json.dumps(row.fields, ensure_ascii=False))
            steps.hset(self._places, row.key, f"{row.place.position}/{row.place.step}")
        steps.hset(self._offsets, mapping={str(one): at for one, at in positions.items()})
        steps.execute()

    def _known(self, steps: Pipeline, keys: list[str]) -> dict[str, Place]:
        if not keys:
            return {}
        known = {}
        for key, found in zip(keys, steps.hmget(self._places, keys), strict=True):
            if found is not None:
                position, _, step = str(found).partition("/")
                known[key] = Place(int(position), int(step))
        return known

    def _changed(self) -> CacheChanged:
        return CacheChanged(f"offsets in {self._offsets!r} are not those that were written last")


def _numbers(found: dict[bytes | str, bytes | str]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in found.items()}
