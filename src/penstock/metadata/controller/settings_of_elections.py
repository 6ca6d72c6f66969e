"""What a change of settings means for partitions, in the same decision.

`min.insync.replicas`: who is eligible to lead was decided by the old value, so it is forgotten.
Else a replica that lacks acknowledged records could be elected. A partition without leader keeps
what it has: no watermark moves until one is elected, and that election goes by the new value.

`unclean.leader.election.enable`: when it is turned on, partitions without leader elect one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.partition_change import Election, change_partition
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.image import ConfigResource
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topic_rules import (
    MIN_IN_SYNC,
    UNCLEAN_ELECTION,
    unclean_election_enabled,
)
from penstock.model.configs import ResourceKind
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.partition import (
    ClearElrRecord,
    PartitionChangeRecord,
)

ALL_TOPICS = ""


def consequences(
    context: DecisionContext, records: Sequence[ConfigRecord]
) -> Iterator[MetadataRecord]:
    """The records that follow those of changed settings."""
    for record in records:
        if record.name == MIN_IN_SYNC:
            is_topic = record.resource_type == ResourceKind.TOPIC
            yield from _cleared(context.state, record.resource_name if is_topic else ALL_TOPICS)
    if any(record.name == UNCLEAN_ELECTION for record in records):
        yield from _elected(context, records)


def _cleared(state: ControllerState, topic_name: str) -> Iterator[MetadataRecord]:
    yield ClearElrRecord(topic_name=topic_name)
    for place in _leaderless(state, topic_name):
        partition = state.partition(place)
        if partition.elr or partition.last_known_elr:
            yield PartitionChangeRecord(
                topic_id=place.topic_id,
                partition_id=place.partition,
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
            )


def _elected(
    context: DecisionContext, records: Iterable[ConfigRecord]
) -> Iterator[PartitionChangeRecord]:
    state = context.state
    after = _Altered(state, records)
    for place in _leaderless(state, ALL_TOPICS):
        if unclean_election_enabled(
            after,
            state.topics_by_id[place.topic_id].name,
            controller_id=context.node_id,
            given=context.settings.given,
        ):
            change = change_partition(context, place, election=Election.UNCLEAN)
            if change is not None:
                yield change


def _leaderless(state: ControllerState, topic_name: str) -> list[Place]:
    if topic_name == ALL_TOPICS:
        return sorted(state.leaderless())
    topic_id = state.topics_by_name[topic_name].topic_id
    return sorted(place for place in state.leaderless() if place.topic_id == topic_id)


class _Altered:
    """The settings as they are after the decision."""

    def __init__(self, state: ControllerState, records: Iterable[ConfigRecord]) -> None:
        self._state = state
        self._changes: dict[ConfigResource, dict[str, str | None]] = {}
        for record in records:
            resource = ConfigResource(ResourceKind(record.resource_type), record.resource_name)
            self._changes.setdefault(resource, {})[record.name] = record.value

    def config(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        before = self._state.config(kind, name)
        changes = self._changes.get(ConfigResource(kind, name))
        if changes is None:
            return before
        laid_over = {**before, **changes}
        return {key: value for key, value in laid_over.items() if value is not None}
