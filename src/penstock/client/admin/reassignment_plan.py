"""Where partitions are to be: read from the file of Apache Kafka's tool, or spread over brokers.

A file may also name the log directories of replicas.

Pure. What cannot be is Refused before anything is asked of a cluster.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from penstock.client.admin.reassignments import Reassignment
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode, PenstockError
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass


class Replica(NamedTuple):
    partition: TopicPartition
    node: NodeId

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.node}"


Targets = dict[TopicPartition, tuple[NodeId, ...]]
Directories = dict[Replica, str]  # absolute paths
ANY_DIRECTORY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What a file says. Replicas that may be in any directory are not among `directories`."""

    targets: Targets
    directories: Directories


class NotAReassignment(PenstockError):
    """A file that says something else, or says it wrongly."""


def parse_reassignments(text: str, *, source: str) -> Placement:
    """`{"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]}`. A
    partition may have `log_dirs`, one for each replica: a path, or "any".
    """
    try:
        told = json.loads(text)
    except ValueError as error:
        raise NotAReassignment(f"{source}: not JSON: {error}") from None
    listed = told.get("partitions") if isinstance(told, dict) else None
    if not isinstance(listed, list) or not listed:
        raise NotAReassignment(f'{source}: expected {{"version": 1, "partitions": [...]}}')
    if told.get("version", 1) != 1:
        raise NotAReassignment(f"{source}: version {told['version']!r} is not known, only 1 is")
    targets: Targets = {}
    directories: Directories = {}
    for number, one in enumerate(listed):
        where = f"{source}: partitions[{number}]"
        place, replicas = _entry(one, where=where)
        if place in targets:
            raise NotAReassignment(f"{source}: {place} is named twice")
        targets[place] = replicas
        paths = _paths(one.get("log_dirs"), replicas, where=where)
        for node, path in zip(replicas, paths, strict=bool(paths)):
            if path != ANY_DIRECTORY:
                directories[Replica(place, node)] = path
    return Placement(targets=targets, directories=directories)


def check_targets(view: ClusterView, targets: Targets, brokers: Collection[NodeId]) -> None:
    """Refused for partitions and brokers that do not exist, and replicas that are named twice."""
    for place, replicas in targets.items():
        if view.partition(place) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise Refused(code, str(place), "there is no such partition")
        _check_replicas(str(place), replicas, brokers)


def spread(
    view: ClusterView,
    partitions: Sequence[TopicPartition],
    to_brokers: Sequence[NodeId],
    *,
    moving: Mapping[TopicPartition, Reassignment],
    also_kept: Collection[NodeId] = (),
    replicas_wanted: int | None = None,
) -> Targets:
    """As many replicas as each partition has, or as are wanted, on these brokers only. Those that
    are there already stay, also those on brokers of `also_kept`; others go to the rack, and then
    the broker, that has the fewest of these replicas. A partition that moves counts with the
    replicas of its target: the view lists those that it leaves as well.
    """
    _check_replicas("--to-brokers", to_brokers, view.brokers)
    kept_on = dict.fromkeys((*to_brokers, *also_kept))
    racks = {node: view.brokers[node].rack or "" for node in kept_on if node in view.brokers}
    count: dict[NodeId, int] = dict.fromkeys(to_brokers, 0)
    leads: dict[NodeId, int] = dict.fromkeys(kept_on, 0)
    kept: dict[TopicPartition, list[NodeId]] = {}
    held: dict[TopicPartition, tuple[NodeId, ...]] = {}
    wanted: dict[TopicPartition, int] = {}
    for place in partitions:
        held[place] = _held(view, place, moving)
        wanted[place] = replicas_wanted or len(held[place])
        kept[place] = [node for node in held[place] if node in kept_on]
        holding = len({*kept[place], *to_brokers})
        if wanted[place] > holding:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                str(place),
                f"{wanted[place]} replicas cannot be on {_counted(holding)}",
            )
        del kept[place][wanted[place] :]
        for node in kept[place]:
            if node in count:
                count[node] += 1
    targets: Targets = {}
    for place, replicas in kept.items():
        while len(replicas) < wanted[place]:
            node = _next_replica(replicas, count, racks)
            replicas.append(node)
            count[node] += 1
        if held[place][0] != replicas[0]:
            # The preferred leader is a new one in any case: whoever has the fewest.
            first = min(replicas, key=lambda node: (node not in count, leads[node], node))
            replicas.remove(first)
            replicas.insert(0, first)
        leads[replicas[0]] += 1
        targets[place] = tuple(replicas)
    return targets


def drained(
    view: ClusterView,
    leaving: Sequence[NodeId],
    brokers: Mapping[NodeId, bool],
    *,
    moving: Mapping[TopicPartition, Reassignment],
) -> Targets:
    """Where partitions are to be so that the leaving brokers hold none. Replicas on other brokers
    stay. `brokers`: all that are registered, and whether each is running. A partition that moves
    away from the leaving brokers already is among them, with the target that it has.
    """
    _check_replicas("--drain", leaving, brokers)
    others = [node for node in brokers if node not in leaving]
    running = [node for node in others if brokers[node] and node in view.brokers]
    if not running:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "--drain", "no broker that runs would be left"
        )
    # All partitions count when a broker is chosen. Those that need not move keep their replicas.
    places = [
        TopicPartition(name, partition.index)
        for name, topic in sorted(view.topics.items())
        for partition in topic.partitions
    ]
    held = [place for place in places if not _is_within(view, place, others)]
    within = [place for place in places if _is_within(view, place, others)]
    targets = spread(view, [*within, *held], running, moving=moving, also_kept=others)
    return {place: targets[place] for place in held}


def _held(
    view: ClusterView, place: TopicPartition, moving: Mapping[TopicPartition, Reassignment]
) -> tuple[NodeId, ...]:
    """The replicas of a partition, or those that it has once its move is complete."""
    if place in moving:
        return moving[place].target
    known = view.partition(place)
    assert known is not None
    return known.replicas


def _is_within(view: ClusterView, place: TopicPartition, nodes: Collection[NodeId]) -> bool:
    known = view.partition(place)
    return known is not None and all(node in nodes for node in known.replicas)


def _next_replica(
    replicas: Sequence[NodeId], count: Mapping[NodeId, int], racks: Mapping[NodeId, str]
) -> NodeId:
    in_rack = dict.fromkeys(racks.values(), 0)
    for node in replicas:
        if node in racks:
            in_rack[racks[node]] += 1
    return min(
        (node for node in count if node not in replicas),
        key=lambda node: (in_rack[racks[node]], count[node], node),
    )


def _check_replicas(about: str, replicas: Sequence[NodeId], brokers: Collection[NodeId]) -> None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise Refused(code, about, "no broker is named")
    if len(set(replicas)) < len(replicas):
        raise Refused(code, about, f"a broker is named twice in {_listed(replicas)}")
    for node in replicas:
        if node not in brokers:
            raise Refused(code, about, f"there is no broker {node}, only {_listed(brokers)}")


def _entry(one: object, *, where: str) -> tuple[TopicPartition, tuple[NodeId, ...]]:
    if not isinstance(one, dict):
        raise NotAReassignment(f"{where}: expected an object")
    topic, index, replicas = one.get("topic"), one.get("partition"), one.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise NotAReassignment(f"{where}: topic is not a name")
    if not isinstance(index, int) or not _is_number(index):
        raise NotAReassignment(f"{where}: partition is not a number")
    if not isinstance(replicas, list) or not all(map(_is_number, replicas)):
        raise NotAReassignment(f"{where}: replicas is not a list of broker ids")
    return TopicPartition(topic, index), tuple(map(NodeId, replicas))


def _paths(told: object, replicas: Sequence[NodeId], *, where: str) -> list[str]:
    """Empty if the entry names no directories."""
    if told is None or told == []:
        return []
    if not isinstance(told, list) or len(told) != len(replicas):
        raise NotAReassignment(f"{where}: log_dirs is not a list with a path for each replica")
    for path in told:
        if not isinstance(path, str) or not (path == ANY_DIRECTORY or path.startswith("/")):
            raise NotAReassignment(
                f'{where}: log_dirs: {json.dumps(path)} is not an absolute path, nor "any"'
            )
    return told


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counted(brokers: int) -> str:
    return f"{brokers} broker{'s' * (brokers != 1)}"


def _listed(nodes: Collection[NodeId]) -> str:
    return ",".join(map(str, nodes))
