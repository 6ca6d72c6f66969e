"""Replicas that move between the log directories of a broker (KIP-113).

Each broker is asked to move its own replicas. A broker that does not have a replica yet answers
REPLICA_NOT_AVAILABLE, and remembers the directory in which to create it. So brokers that get
replicas by a reassignment are asked before it begins, and again until they have them.

While a replica is copied, DescribeLogDirs lists the copy as a future replica; at the end it takes
the place of the replica.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping

from penstock.client.admin.admin import Admin, LogDirectory, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs, describe_configs
from penstock.client.admin.moving import Stage
from penstock.client.admin.reassignment_plan import Directories, Replica
from penstock.client.admin.replica_sizes import Copied
from penstock.client.admin.replication_throttle import GONE
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
ARRIVE_MS_MAX = 10_000  # how long a broker may take to create a replica that it was assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a broker has a replica, and where it copies it to."""

    now: Stored | None = None
    future: Stored | None = None

    def is_at(self, path: str) -> bool:
        """With nothing left to copy."""
        return self.now is not None and self.now.path == path and self.future is None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedDirectory:
    """A replica that was to move, and what became of it."""

    replica: Replica
    source: str | None  # None: the broker does not have it yet
    target: str
    stage: Stage
    copied: Copied | None = None  # while it is copied


async def locate(cluster: Cluster, wanted: Directories) -> dict[Replica, Located]:
    """Where replicas are now. Refused if a broker does not have the directory that is wanted, or it
    is offline.
    """
    told = await _directories(cluster, wanted)
    for replica, path in wanted.items():
        known = {one.path: one for one in told[replica.node]}
        about = f"broker {replica.node}"
        if path not in known:
            listed = ",".join(sorted(known))
            said = f"there is no log directory {path}, only {listed}"
            raise Refused(ErrorCode.LOG_DIR_NOT_FOUND, about, said)
        if known[path].error is not None:
            said = f"the log directory {path} is offline"
            raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, about, said)
    return {replica: _located(replica, told[replica.node]) for replica in wanted}


async def ask_directories(cluster: Cluster, wanted: Directories) -> Directories:
    """Begins the moves, and returns those of replicas that their brokers do not have yet. Refused
    at the first error.
    """
    pending: Directories = {}
    for node in sorted({replica.node for replica in wanted}):
        asked = {replica: path for replica, path in wanted.items() if replica.node == node}
        reply = await cluster.ask(node, _request(asked), AlterReplicaLogDirsResponse)
        codes = {
            TopicPartition(topic.topic_name, one.partition_index): error_code(one.error_code)
            for topic in reply.results
            for one in topic.partitions
        }
        for replica, path in asked.items():
            code = codes.get(replica.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code == ErrorCode.REPLICA_NOT_AVAILABLE:
                pending[replica] = path
            elif code != ErrorCode.NONE:
                raise Refused(code, str(replica))
    return pending


async def begin_directory_moves(cluster: Cluster, wanted: Directories) -> None:
    """Asks until brokers have all of these replicas. Refused when that takes too long."""
    deadline_ms = cluster.clock.monotonic_ms() + ARRIVE_MS_MAX
    while wanted := await ask_directories(cluster, wanted):
        if cluster.clock.monotonic_ms() >= deadline_ms:
            replica = next(iter(wanted))
            said = "the broker has not created it yet: give the same file again later"
            raise Refused(ErrorCode.REPLICA_NOT_AVAILABLE, str(replica), said)
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)


async def follow_directories(
    cluster: Cluster, wanted: Directories, *, moving: Collection[TopicPartition]
) -> list[FollowedDirectory]:
    """How far each replica is. `moving` are partitions that move between brokers."""
    told = await _directories(cluster, wanted)
    found = []
    for replica, path in wanted.items():
        located = _located(replica, told[replica.node])
        copied = None
        if located.is_at(path):
            stage = Stage.COMPLETE
        elif located.future is not None and located.future.path == path:
            stage = Stage.MOVING
            whole = max(
                located.future.size_bytes, 0 if located.now is None else located.now.size_bytes
            )
            copied = Copied(done_bytes=located.future.size_bytes, whole_bytes=whole)
        elif located.now is None and replica.partition in moving:
            stage = Stage.MOVING
        else:
            stage = Stage.ELSEWHERE
        found.append(
            FollowedDirectory(
                replica=replica,
                source=None if located.now is None else located.now.path,
                target=path,
                stage=stage,
                copied=copied,
            )
        )
    return found


async def cancel_directory_moves(cluster: Cluster, wanted: Directories) -> list[Replica]:
    """Replicas that are being copied stay where they are. Returns them, without those of brokers
    that cannot be reached.
    """
    stayed: list[Replica] = []
    for node in sorted({replica.node for replica in wanted}):
        asked = {replica: path for replica, path in wanted.items() if replica.node == node}
        back: Directories = {}
        try:
            directories = (await _directories(cluster, asked))[node]
            for replica in asked:
                located = _located(replica, directories)
                if located.future is not None and located.now is not None:
                    back[replica] = located.now.path
            await ask_directories(cluster, back)
        except GONE:
            continue
        stayed.extend(back)
    return stayed


async def throttle_directories(
    cluster: Cluster, nodes: Iterable[NodeId], *, rate_bytes: int
) -> None:
    change = Change(name=RATE, operation=Operation.SET, value=str(rate_bytes))
    for node in sorted(set(nodes)):
        resource = Resource(ResourceKind.BROKER, str(node))
        first_refusal((await alter_configs(cluster, {resource: [change]})).values())


async def end_directory_throttles(cluster: Cluster) -> list[str]:
    """Removes the throttles of brokers that copy nothing between directories any more, and returns
    the brokers' names. Brokers that cannot be reached keep theirs.
    """
    removed = []
    for node in sorted((await cluster.refresh()).brokers):
        resource = Resource(ResourceKind.BROKER, str(node))
        try:
            entries = (await describe_configs(cluster, [resource]))[resource]
            if isinstance(entries, Refused) or not any(
                one.name == RATE and one.source is Source.DYNAMIC_BROKER for one in entries
            ):
                continue
            directories = (await Admin(cluster).log_directories([node]))[node]
            if isinstance(directories, Refused) or _copies(directories):
                continue
            change = Change(name=RATE, operation=Operation.DELETE)
            first_refusal((await alter_configs(cluster, {resource: [change]})).values())
        except GONE:
            continue
        removed.append(str(resource))
    return removed


async def _directories(
    cluster: Cluster, wanted: Directories
) -> Mapping[NodeId, list[LogDirectory]]:
    found = {}
    nodes = sorted({replica.node for replica in wanted})
    places = list(dict.fromkeys(replica.partition for replica in wanted))
    told = await Admin(cluster).log_directories(nodes, partitions=places) if nodes else {}
    for node, directories in told.items():
        if isinstance(directories, Refused):
            raise directories
        found[node] = directories
    return found


def _located(replica: Replica, directories: Iterable[LogDirectory]) -> Located:
    now = future = None
    for directory in directories:
        for one in directory.replicas:
            if one.partition != replica.partition:
                continue
            stored = Stored(path=directory.path, size_bytes=one.size_bytes)
            if one.is_future:
                future = stored
            else:
                now = stored
    return Located(now=now, future=future)


def _copies(directories: Iterable[LogDirectory]) -> bool:
    return any(one.is_future for directory in directories for one in directory.replicas)


def _request(asked: Directories) -> AlterReplicaLogDirsRequest:
    paths: dict[str, dict[str, list[int]]] = {}
    for replica, path in asked.items():
        topic, index = replica.partition
        paths.setdefault(path, {}).setdefault(topic, []).append(index)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=indexes)
                    for name, indexes in topics.items()
                ],
            )
            for path, topics in paths.items()
        ]
    )
