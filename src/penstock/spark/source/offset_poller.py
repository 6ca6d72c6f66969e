"""What the driver wants to know of the brokers: which partitions there are, and their offsets.

Questions are asked as plain functions; the connection stays open between them, because a stream
asks several times a second. Where no broker has ever answered the first question fails at once;
once one has, a broker that goes away is waited for, since a restart must not end a query.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar, assert_never

from penstock.client.admin.admin import Admin
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.offsets import When, list_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
)
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.connection import connect
from penstock.spark.source.errors import SizesRefused
from penstock.spark.source.loop_thread import Background
from penstock.spark.source.options import Patience, SourceOptions
from penstock.spark.source.positions import (
    Assigned,
    NoneThatYoung,
    Offsets,
    Pattern,
    Selection,
    Topics,
    Where,
    covers,
    question,
    resolved,
)

AWAY = (ConnectionLost, TimedOut, Unreachable)

IMPATIENT = Patience(retries_max=0)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The partitions of a selection, and the ids of their topics; `missing` are named in it and
    are not there.
    """

    partitions: tuple[TopicPartition, ...]
    ids: Mapping[str, TopicId]
    missing: tuple[str, ...] = ()


class OffsetPoller:
    """Use as `with OffsetPoller(...)`, or `close` it."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._background = Background()
        self._cluster: Cluster | None = None
        self._answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            self._background.finish(cluster.__aexit__(None, None, None))
        self._background.close()

    def layout(self, selection: Selection) -> Layout:
        return self._ask(lambda cluster: _layout(cluster, selection))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets(dict.fromkeys(partitions, int(When.EARLIEST)))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The ends of what may be read: with read_committed the last stable offsets."""
        return self._offsets(dict.fromkeys(partitions, int(When.LATEST)))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The ends of what is replicated, committed by its transaction or not."""
        wanted = dict.fromkeys(partitions, int(When.LATEST))
        return self._offsets(wanted, isolation=Isolation.READ_UNCOMMITTED)

    def still_end(self, ends: Offsets) -> bool:
        """Whether the logs end there, asked once and waited for by nobody: any doubt is a no."""
        assert self._cluster is not None, "someone has looked at the ends before"
        latest = dict.fromkeys(ends, int(When.LATEST))
        question = _listed(self._cluster, latest, self.options.isolation, timeout_ms=0)
        try:
            return self._background.call(question) == ends
        except ClientError:
            return False

    def sizes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The bytes of each log, where its leader tells them."""
        wanted = frozenset(partitions)
        return self._ask(lambda cluster: _sizes(cluster, wanted))

    def since(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset | None]:
        """The first record of each at or after a time; None where there is none."""
        return self._listed(dict.fromkeys(partitions, timestamp_ms))

    def resolved(
        self,
        where: Where,
        partitions: Iterable[TopicPartition],
        *,
        latest: Mapping[TopicPartition, Offset],
        none_that_young: NoneThatYoung,
    ) -> Offsets:
        there = list(partitions)
        covers(where, there)
        asked = {one: told for one in there if (told := question(where, one)) is not None}
        return resolved(
            where,
            self._listed(asked),
            partitions=there,
            latest=latest,
            none_that_young=none_that_young,
        )

    def _offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation: Isolation | None = None
    ) -> Offsets:
        found: Offsets = {}
        for partition, offset in self._listed(wanted, isolation=isolation).items():
            assert offset is not None, "a log has two ends"
            found[partition] = offset
        return found

    def _listed(
        self, wanted: Mapping[TopicPartition, int], *, isolation: Isolation | None = None
    ) -> dict[TopicPartition, Offset | None]:
        if not wanted:
            return {}
        level = self.options.isolation if isolation is None else isolation
        return self._ask(lambda cluster: _listed(cluster, wanted, level))

    def _ask(self, work: Callable[[Cluster], Coroutine[Any, Any, Result]]) -> Result:
        if self._cluster is None:
            cluster = connect(self.options.connection)
            self._background.call(cluster.__aenter__())
            self._cluster = cluster
        # Until a broker has answered it may never have been there.
        patience = self.options.patience if self._answered else IMPATIENT
        found = self._background.call(_waiting(work, self._cluster, patience))
        self._answered = True
        return found


async def _waiting(
    work: Callable[[Cluster], Coroutine[Any, Any, Result]], cluster: Cluster, patience: Patience
) -> Result:
    began_ms = cluster.clock.monotonic_ms()
    retries = 0
    while True:
        try:
            return await work(cluster)
        except AWAY:
            waited_ms = cluster.clock.monotonic_ms() - began_ms
            if patience.is_over(retries=retries, waited_ms=waited_ms):
                raise
        retries += 1
        await asyncio.sleep(patience.pause_ms / 1000)


async def _layout(cluster: Cluster, selection: Selection) -> Layout:
    match selection:
        case Topics(names):
            view = await cluster.refresh(names)
            for name in names:
                code = view.errors.get(name)
                if code not in (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise Refused(code, name)
            found = [name for name in names if name in view.topics]
            missing = tuple(f"topic {name}" for name in names if name not in view.topics)
            return _of_topics(view, found, missing)
        case Pattern():
            view = await cluster.refresh_all()
            found = [
                name
                for name, topic in view.topics.items()
                if not topic.internal and selection.reads(name)
            ]
            return _of_topics(view, found, ())
        case Assigned(partitions):
            view = await cluster.refresh(dict.fromkeys(one.topic for one in partitions))
            there = tuple(one for one in partitions if view.partition(one) is not None)
            return Layout(
                partitions=there,
                ids={one.topic: view.topic_id(one.topic) for one in there},
                missing=tuple(f"partition {one}" for one in partitions if one not in there),
            )
        case _:
            assert_never(selection)


async def _sizes(
    cluster: Cluster, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, int]:
    leaders = {one: cluster.view.leader_of(one) for one in partitions}
    nodes = sorted({node for node in leaders.values() if node is not None})
    found: dict[TopicPartition, int] = {}
    told = await Admin(cluster).log_directories(nodes, partitions=sorted(partitions))
    for node, directories in told.items():
        if isinstance(directories, Refused):
            raise SizesRefused(str(directories))
        for directory in directories:
            for replica in directory.replicas:
                if leaders.get(replica.partition) == node and not replica.is_future:
                    found[replica.partition] = replica.size_bytes
    return found


def _of_topics(view: ClusterView, names: list[str], missing: tuple[str, ...]) -> Layout:
    return Layout(
        partitions=tuple(
            sorted(
                TopicPartition(name, one.index)
                for name in names
                for one in view.topics[name].partitions
            )
        ),
        ids={name: view.topic_id(name) for name in names},
        missing=missing,
    )


async def _listed(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    isolation: Isolation,
    *,
    timeout_ms: int = 30_000,
) -> dict[TopicPartition, Offset | None]:
    found: dict[TopicPartition, Offset | None] = {}
    listed = await list_offsets(cluster, wanted, isolation=isolation, timeout_ms=timeout_ms)
    for partition, told in listed.items():
        if isinstance(told, Refused):
            raise told
        found[partition] = told.offset
    return found
