"""A map that never changes; a changed copy of it shares what did not change.

The keys lie in a fixed number of buckets, by hash. A change copies the list of buckets and the
buckets that hold a changed key, so one topic beside 10,000 others costs about as much as 40 of
them. ADR 31 has the figures and what else was measured.

Iteration is in the order of the keys, never in that of the buckets: hashes of strings differ from
process to process, and a simulated run must not.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, overload


class Sortable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Sortable)
Value = TypeVar("Value")
Other = TypeVar("Other")

BUCKETS = 256  # a power of two
MASK = BUCKETS - 1


class SharedMap(Mapping[Key, Value]):
    """Made by `shared`; changed copies come from `changed`."""

    __slots__ = ("_buckets", "_length", "_order")

    def __init__(
        self,
        buckets: list[dict[Key, Value]],
        length: int,
        order: tuple[Key, ...] | None = None,
    ) -> None:
        self._buckets = buckets
        self._length = length
        self._order = order  # the sorted keys, once somebody has asked for them

    def __getitem__(self, key: Key) -> Value:
        return self._buckets[hash(key) & MASK][key]

    @overload
    def get(self, key: Key, /) -> Value | None: ...
    @overload
    def get(self, key: Key, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: Key, /, default: Any = None) -> Any:
        return self._buckets[hash(key) & MASK].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & MASK]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Key]:
        if self._order is None:
            self._order = tuple(sorted(key for bucket in self._buckets for key in bucket))
        return iter(self._order)

    def __repr__(self) -> str:
        return f"SharedMap({dict(self)!r})"

    def changed(
        self, values: Mapping[Key, Value], *, without: Iterable[Key] = ()
    ) -> "SharedMap[Key, Value]":
        """A copy that lacks the keys of `without`, all of which are in this map, and then has
        `values`.
        """
        buckets = list(self._buckets)
        copied: dict[int, dict[Key, Value]] = {}
        length = self._length
        same_keys = True
        for key in without:
            del _own(buckets, copied, key)[key]
            length -= 1
            same_keys = False
        for key, value in values.items():
            bucket = _own(buckets, copied, key)
            if key not in bucket:
                length += 1
                same_keys = False
            bucket[key] = value
        if not copied:
            return self
        return SharedMap(buckets, length, self._order if same_keys else None)

    def check(self) -> None:
        """1 The length is right. 2 Each key is in its bucket. 3 The order has exactly the keys."""
        assert self._length == sum(len(bucket) for bucket in self._buckets)
        for index, bucket in enumerate(self._buckets):
            assert all(hash(key) & MASK == index for key in bucket)
        assert self._order is None or self._order == tuple(
            sorted(key for bucket in self._buckets for key in bucket)
        )


def shared(values: Mapping[Key, Value] | None = None) -> SharedMap[Key, Value]:
    """A map with these values; the same one if it is shared already."""
    if isinstance(values, SharedMap):
        return values
    nothing: dict[Key, Value] = {}
    empty = SharedMap([nothing] * BUCKETS, 0)
    return empty if values is None else empty.changed(values)


def keys_beyond(values: Mapping[Key, Value], known: Mapping[Key, Value]) -> list[Key]:
    """The keys that `known` lacks, in order. Buckets that both share are not looked into."""
    pairs = zip(shared(values)._buckets, shared(known)._buckets, strict=True)
    return sorted(
        key for mine, others in pairs if mine is not others for key in mine if key not in others
    )


def _own(
    buckets: list[dict[Key, Value]], copied: dict[int, dict[Key, Value]], key: Key
) -> dict[Key, Value]:
    """The bucket of a key, as a copy that may be changed."""
    index = hash(key) & MASK
    bucket = copied.get(index)
    if bucket is None:
        bucket = copied[index] = buckets[index] = dict(buckets[index])
    return bucket
