"""Partitions that move to other brokers, and elections of leaders, as an operator asks for them.

All of it is decided by the controller and answered for each partition by itself (KIP-455, KIP-460).
Brokers refuse requests with more than 10,000 partitions, and the controller decides about a request
at once, so that many partitions are asked for in several requests. A broker that goes away is no
obstacle: another one is asked.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from penstock.client.network.cluster import AnyReply, Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.client.network.repeated import repeated
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.definition import Message
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.elect_leaders import (
    ElectedTopicPartitions,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

ABOUT_ALL = "reassignment"
PARTITIONS_PER_REQUEST = 2_000


class Election(IntEnum):
    """Who may be elected, by the protocol's numbers."""

    PREFERRED = 0  # the first replica of the list
    UNCLEAN = 1  # any replica that lives, also if it lacks records


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that moves."""

    partition: TopicPartition
    replicas: tuple[NodeId, ...]  # all that hold it now, or are to
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]

    @property
    def target(self) -> tuple[NodeId, ...]:
        return tuple(node for node in self.replicas if node not in self.removing)


async def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Those of these partitions that move; without partitions, all that move."""
    if partitions is None:
        return await _listed(cluster, None)
    found: dict[TopicPartition, Reassignment] = {}
    for part in _parts(partitions):
        found.update(await _listed(cluster, part))
    return found


async def alter_reassignments(
    cluster: Cluster,
    targets: Mapping[TopicPartition, Sequence[NodeId] | None],
    *,
    may_change_factor: bool = True,
) -> dict[TopicPartition, Refused | None]:
    """Begins to move each partition to its replicas; None instead of replicas stops its move.
    Without `may_change_factor` a partition keeps the number of its replicas, or is Refused; brokers
    that know only version 0 of the request do not check it. Refused is raised if nothing was done.
    """
    found: dict[TopicPartition, Refused | None] = {}
    for part in _parts(targets):
        wanted = {place: targets[place] for place in part}
        try:
            found.update(await _altered(cluster, wanted, may_change_factor=may_change_factor))
        except Refused as refusal:
            if not found:
                raise
            found.update(dict.fromkeys(part, refusal))
    return found


async def elect_leaders(
    cluster: Cluster, election: Election, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Refused | None]:
    """Elections of these partitions, or of all that need one. One of those named that needs none is
    Refused with ELECTION_NOT_NEEDED.
    """
    asked = partitions
    if asked is None:
        asked = without_leader_wanted(await cluster.refresh_all(), election)
    found: dict[TopicPartition, Refused | None] = {}
    for part in _parts(asked):
        found.update(await _elected(cluster, election, part))
    if partitions is not None:
        return found
    return {
        place: refusal
        for place, refusal in found.items()
        if refusal is None or refusal.code != ErrorCode.ELECTION_NOT_NEEDED
    }


def without_leader_wanted(view: ClusterView, election: Election) -> list[TopicPartition]:
    """Partitions that are not led by the first replica, or, for an unclean election, by nobody."""
    return [
        TopicPartition(name, one.index)
        for name, topic in sorted(view.topics.items())
        for one in topic.partitions
        if one.leader is None
        or (election is Election.PREFERRED and one.leader != next(iter(one.replicas), None))
    ]


async def _listed(
    cluster: Cluster, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, Reassignment]:
    asked = None
    if partitions is not None:
        asked = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(
        timeout_ms=cluster.rules.request_ms_max, topics=asked
    )
    reply = await _ask(cluster, request, ListPartitionReassignmentsResponse)
    code = error_code(reply.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, ABOUT_ALL, reply.error_message)
    return {
        (place := TopicPartition(topic.name, told.partition_index)): Reassignment(
            partition=place,
            replicas=tuple(map(NodeId, told.replicas)),
            adding=tuple(map(NodeId, told.adding_replicas)),
            removing=tuple(map(NodeId, told.removing_replicas)),
        )
        for topic in reply.topics
        for told in topic.partitions
    }


async def _altered(
    cluster: Cluster,
    targets: Mapping[TopicPartition, Sequence[NodeId] | None],
    *,
    may_change_factor: bool,
) -> dict[TopicPartition, Refused | None]:
    topics: dict[str, ReassignableTopic] = {}
    for (name, index), replicas in targets.items():
        topic = topics.setdefault(name, ReassignableTopic(name=name))
        topic.partitions.append(
            ReassignablePartition(
                partition_index=index,
                replicas=None if replicas is None else [int(node) for node in replicas],
            )
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.rules.request_ms_max,
        allow_replication_factor_change=may_change_factor,
        topics=list(topics.values()),
    )
    reply = await _ask(cluster, request, AlterPartitionReassignmentsResponse)
    code = error_code(reply.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, ABOUT_ALL, reply.error_message)
    return {
        (place := TopicPartition(topic.name, told.partition_index)): _refusal(
            told.error_code, place, told.error_message
        )
        for topic in reply.responses
        for told in topic.partitions
    }


async def _elected(
    cluster: Cluster, election: Election, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Refused | None]:
    asked = [
        ElectedTopicPartitions(topic=name, partitions=indexes)
        for name, indexes in _by_topic(partitions).items()
    ]
    request = ElectLeadersRequest(
        election_type=election, topic_partitions=asked, timeout_ms=cluster.rules.request_ms_max
    )
    reply = await _ask(cluster, request, ElectLeadersResponse)
    code = error_code(reply.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, "election")
    return {
        (place := TopicPartition(topic.topic, told.partition_id)): _refusal(
            told.error_code, place, told.error_message
        )
        for topic in reply.replica_election_results
        for told in topic.partition_result
    }


async def _ask(cluster: Cluster, request: Message, reply_type: type[AnyReply]) -> AnyReply:
    """Each of them may be asked twice: the second time there is nothing left to do."""
    return await repeated(cluster, lambda: cluster.ask_controller(request, reply_type))


def _parts(partitions: Iterable[TopicPartition]) -> Iterator[list[TopicPartition]]:
    listed = list(partitions)
    for start in range(0, len(listed), PARTITIONS_PER_REQUEST):
        yield listed[start : start + PARTITIONS_PER_REQUEST]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    return topics


def _refusal(code: int, place: TopicPartition, message: str | None) -> Refused | None:
    found = error_code(code)
    return None if found == ErrorCode.NONE else Refused(found, str(place), message)
