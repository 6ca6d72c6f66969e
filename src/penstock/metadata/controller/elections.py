"""Elections that somebody asks for: an operator, or the controller itself to spread leaders.

preferred   the first replica leads again, if it is in sync and can lead
unclean     a partition without leader elects any replica that lives: records may be lost
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import islice

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.controller.partition_change import Election, change_partition
from penstock.metadata.controller.state import Place
from penstock.metadata.controller.topics import TOO_LARGE
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import DECISION_RECORDS_MAX, ELECTIONS_AT_ONCE_MAX
from penstock.wire.messages.elect_leaders import (
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord


class ElectionType(IntEnum):
    """By the numbers of the wire."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceLeaders:
    """The controller itself asks, from time to time: preferred replicas are to lead again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersBalanced:
    elected: int
    is_done: bool  # there was nothing more to do


def elect_leaders(
    context: DecisionContext, request: ElectLeadersRequest
) -> Decision[MetadataRecord, ElectLeadersResponse]:
    """An election in each partition named; each has its own result. If all partitions are meant,
    those that need none are left out.
    """
    if request.election_type not in tuple(ElectionType):
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
        )
    kind = ElectionType(request.election_type)
    records: list[MetadataRecord] = []
    reply = ElectLeadersResponse()
    if request.topic_partitions is None:
        for name, topic in context.state.topics_by_name.items():
            elected = ElectedTopic(topic=name)
            for index in range(len(topic.partitions)):
                result = _elect(context, name, index, kind, records)
                if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    elected.partition_result.append(result)
            if elected.partition_result:
                reply.replica_election_results.append(elected)
    else:
        asked: set[tuple[str, int]] = set()
        for named in request.topic_partitions:
            elected = ElectedTopic(topic=named.topic)
            for index in named.partitions:
                if (named.topic, index) not in asked:
                    asked.add((named.topic, index))
                    elected.partition_result.append(
                        _elect(context, named.topic, index, kind, records)
                    )
            reply.replica_election_results.append(elected)
    if len(records) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return Decision(records=tuple(records), reply=reply)


def balance_leaders(
    context: DecisionContext, request: BalanceLeaders
) -> Decision[MetadataRecord, LeadersBalanced]:
    """Some of the elections that are due, so that nobody waits long for this decision."""
    records = tuple(islice(_preferred(context), ELECTIONS_AT_ONCE_MAX))
    reply = LeadersBalanced(elected=len(records), is_done=len(records) < ELECTIONS_AT_ONCE_MAX)
    return Decision(records=records, reply=reply)


def _preferred(context: DecisionContext) -> Iterator[PartitionChangeRecord]:
    for place in sorted(context.state.imbalanced()):
        change = change_partition(context, place, election=Election.PREFERRED)
        if change is not None:
            yield change


def _elect(
    context: DecisionContext,
    name: str,
    index: int,
    kind: ElectionType,
    records: list[MetadataRecord],
) -> ElectedPartition:
    refusal = _refusal(context, name, index, kind, records)
    if refusal is None:
        return ElectedPartition(partition_id=index, error_message=None)
    return ElectedPartition(
        partition_id=index, error_code=refusal.code, error_message=refusal.message
    )


def _refusal(
    context: DecisionContext,
    name: str,
    index: int,
    kind: ElectionType,
    records: list[MetadataRecord],
) -> Refusal | None:
    """Adds the record of the election, if there is one."""
    topic = context.state.topics_by_name.get(name)
    if topic is None:
        return Refusal(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=f"No such topic as {name}"
        )
    if not 0 <= index < len(topic.partitions):
        return Refusal(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message=f"No such partition as {name}-{index}",
        )
    partition = topic.partitions[index]
    place = Place(topic.topic_id, index)
    if kind == ElectionType.UNCLEAN:
        if partition.leader is not None:
            return Refusal(
                code=ErrorCode.ELECTION_NOT_NEEDED,
                message="Leader election not needed for topic partition.",
            )
        change = change_partition(context, place, election=Election.UNCLEAN)
        missing = Refusal(
            code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            message="Eligible topic partition leaders are not available.",
        )
    else:
        if partition.leader == partition.replicas[0]:
            return Refusal(
                code=ErrorCode.ELECTION_NOT_NEEDED,
                message="Leader election not needed for topic partition.",
            )
        change = change_partition(context, place, election=Election.PREFERRED)
        missing = Refusal(
            code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            message="The preferred leader was not available.",
        )
    if change is None:
        return missing
    records.append(change)
    return None
