"""A cache of the latest rows of a table, in a server of Redis, or any that speaks its protocol.

    NAME:KEY              the row as JSON
    penstock:NAME         a hash: `topic_id`, and of each partition the next offset and the position
                          of the last change that was read, as in 120/98765
    penstock:NAME:places  a hash: the place of each key's last change, of rows that are gone too
    penstock:NAME:deleted a sorted set: keys of rows that are gone, by the position of that change

NAME is the topic, unless another is given. Rows, places and progress change in one MULTI ... EXEC.
A server that has lost its memory has lost its progress too, and is filled from the first record.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.client import Pipeline

from penstock.model.error import PenstockError
from penstock.model.identity import TopicId
from penstock.spark.pipelines.cdc.latest_rows import NOWHERE, Place, Row, latest
from penstock.spark.pipelines.cdc.store_progress import NOTHING, Progress

SECONDS_MAX = 10
TOPIC_ID = "topic_id"
DELETED_AT_ONCE = 1_000


class CacheUnreachable(PenstockError):
    """The server does not answer."""


class CacheChanged(PenstockError):
    """The server has been emptied, or another follower writes to it: begin where it is now."""


class RedisCache:
    def __init__(self, url: str, *, name: str) -> None:
        self._name = name
        self._progress = f"penstock:{name}"
        self._places = f"penstock:{name}:places"
        self._deleted = f"penstock:{name}:deleted"
        self._read: dict[str, str] = {}  # the progress that the server has, as far as we know
        try:
            self._server: redis.Redis = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=SECONDS_MAX,
                socket_connect_timeout=SECONDS_MAX,
            )
        except ValueError as error:
            raise CacheUnreachable(f"{url!r} is no address of a cache: {error}") from error

    @property
    def title(self) -> str:
        return f"cache {self._name}"

    @property
    def how_to_empty(self) -> str:
        return (
            f"delete its keys ({self._name}:*, {self._progress} and {self._progress}:*), and it is"
            " filled from the first record; or give it another --name"
        )

    def progress(self) -> Progress:
        try:
            self._read = _texts(self._server.hgetall(self._progress))
        except redis.RedisError as error:
            raise CacheUnreachable(f"the cache does not answer: {error}") from error
        return _decoded(self._read)

    def write(self, rows: list[Row], progress: Progress) -> None:
        with self._steps() as steps:
            self._write(steps, rows, progress)

    def forget_deleted(self, before: int) -> None:
        if before <= NOTHING:
            return
        with self._steps() as steps:
            while self._forget_some(steps, before):
                pass

    @contextmanager
    def _steps(self) -> Iterator[Pipeline]:
        try:
            with self._server.pipeline(transaction=True) as steps:
                yield steps
        except redis.WatchError as error:
            raise self._changed() from error
        except redis.RedisError as error:
            raise CacheUnreachable(f"the cache does not take rows: {error}") from error

    def _write(self, steps: Pipeline, rows: list[Row], progress: Progress) -> None:
        self._watch(steps)
        taken = latest(rows, self._known(steps, sorted({row.key for row in rows})))
        steps.multi()
        for row in taken:
            self._put(steps, row)
        fields = _encoded(progress)
        for name, value in fields.items():
            steps.hset(self._progress, name, value)
        steps.execute()
        self._read |= fields

    def _put(self, steps: Pipeline, row: Row) -> None:
        key, place = f"{self._name}:{row.key}", f"{row.place.position}/{row.place.step}"
        if row.fields is not None:
            steps.set(key, json.dumps(row.fields, ensure_ascii=False))
            steps.hset(self._places, row.key, place)
            steps.zrem(self._deleted, row.key)
            return
        steps.delete(key)
        if row.place == NOWHERE:  # which is the place of keys that are not known
            steps.hdel(self._places, row.key)
            steps.zrem(self._deleted, row.key)
        else:
            steps.hset(self._places, row.key, place)
            steps.zadd(self._deleted, {row.key: row.place.position})

    def _forget_some(self, steps: Pipeline, before: int) -> bool:
        """Whether there may be more."""
        self._watch(steps)
        found = steps.zrangebyscore(self._deleted, 0, f"({before}", start=0, num=DELETED_AT_ONCE)
        keys = [str(key) for key in found]
        steps.multi()
        if keys:
            steps.hdel(self._places, *keys)
            steps.zrem(self._deleted, *keys)
        steps.execute()
        return len(keys) == DELETED_AT_ONCE

    def _watch(self, steps: Pipeline) -> None:
        # The client connects again by itself. What was watched is then no longer as it was.
        steps.watch(self._progress)  # type: ignore[no-untyped-call] # it has no types
        if _texts(steps.hgetall(self._progress)) != self._read:
            raise self._changed()

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
        return CacheChanged(f"offsets in {self._progress!r} are not those that were written last")


def _texts(found: dict[bytes | str, bytes | str]) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()}


def _encoded(progress: Progress) -> dict[str, str]:
    positions = progress.change_positions
    fields = {
        str(partition): f"{offset}/{positions.get(partition, NOTHING)}"
        for partition, offset in progress.next_offsets.items()
    }
    return fields if progress.topic_id is None else fields | {TOPIC_ID: progress.topic_id.hex()}


def _decoded(fields: dict[str, str]) -> Progress:
    topic_id = fields.get(TOPIC_ID)
    # Caches of before positions were kept have the offset alone.
    places = {int(name): value.partition("/") for name, value in fields.items() if name != TOPIC_ID}
    return Progress(
        topic_id=None if topic_id is None else TopicId(bytes.fromhex(topic_id)),
        next_offsets={partition: int(offset) for partition, (offset, _, _) in places.items()},
        change_positions={
            partition: int(position or NOTHING) for partition, (_, _, position) in places.items()
        },
    )
