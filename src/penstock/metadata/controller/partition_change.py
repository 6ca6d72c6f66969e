"""How one partition changes: who is in sync, who is eligible, who leads.

Every decision that changes an in-sync set or a leader comes through here (KIP-966):

- A replica that leaves the in-sync set while that has fewer members than `min.insync.replicas`
  becomes eligible: from here on the high watermark stands still, so the replica has all records
  below it. As soon as enough replicas are in sync again, nobody is eligible any more.
- A replica that may have lost records is neither in sync nor eligible.
- The leader is an in-sync replica; if there is none, an eligible one, which is then the only one in
  sync; if there is none, the last leader that was known. Any other replica leads only after an
  unclean election. The last two may lack records: the new leader is marked RECOVERING.
- A last known leader leads again only from the log directory in which it had led. Otherwise its
  disk was replaced, and an operator has to decide.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.changes import LEADER_UNCHANGED, NO_LEADER, RECOVERY_UNCHANGED
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.metadata.topic_rules import min_in_sync, unclean_election_enabled
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord


class Election(Enum):
    """Whom a partition may elect."""

    CLEAN = "the present leader if it can lead, else the next one that has all records"
    PREFERRED = "the first replica if it can lead, else as CLEAN"
    UNCLEAN = "as CLEAN, else any replica that lives"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """What the decision is about to say of a broker, which the state does not show yet."""

    leaving: NodeId | None = None  # it leads nothing from now on
    has_lost_records: bool = False  # the one that leaves, for all that is known
    joining: NodeId | None = None  # it is unfenced


NO_BROKER_CHANGE = BrokerChange()


class _Elected(NamedTuple):
    leader: NodeId | None
    is_clean: bool = True


class _After(NamedTuple):
    """The sets of a partition before a leader is elected from them."""

    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]


def election_of(context: DecisionContext, place: Place) -> Election:
    """Whom the settings of the topic allow to elect."""
    allowed = unclean_election_enabled(
        context.state,
        context.state.topics_by_id[place.topic_id].name,
        controller_id=context.node_id,
        given=context.settings.given,
    )
    return Election.UNCLEAN if allowed else Election.CLEAN


def change_partition(
    context: DecisionContext,
    place: Place,
    *,
    isr: Sequence[NodeId] | None = None,
    election: Election | None = None,
    brokers: BrokerChange = NO_BROKER_CHANGE,
    recovery: LeaderRecovery | None = None,
) -> PartitionChangeRecord | None:
    """The record that makes `isr` the in-sync set and elects a leader if one is needed; None if
    nothing changes. The settings of the topic decide whom to elect unless `election` does.
    """
    state = context.state
    before = state.partition(place)
    topic = state.topics_by_id[place.topic_id].name
    in_sync_min = min_in_sync(state, topic, replicas=len(before.replicas))
    after = _sets(before, before.isr if isr is None else tuple(isr), in_sync_min, brokers)
    election = election_of(context, place) if election is None else election
    elected = _elect(state, before, after, election, brokers)
    in_sync, eligible = after
    if elected.leader is not None and elected.leader not in in_sync:
        in_sync = (elected.leader,)
        eligible = tuple(node for node in eligible if node != elected.leader)
    if not elected.is_clean:
        eligible, recovery = (), LeaderRecovery.RECOVERING
    if len(in_sync) >= in_sync_min:
        eligible = ()
    return _record(
        place,
        before,
        isr=in_sync,
        elr=eligible,
        leader=elected.leader,
        last_known_elr=_last_known(before, in_sync, elected.leader),
        recovery=before.leader_recovery_state if recovery is None else recovery,
    )


def can_lead(
    state: ControllerState,
    partition: PartitionImage,
    replica: NodeId,
    brokers: BrokerChange = NO_BROKER_CHANGE,
) -> bool:
    """Whether the replica's broker lives, stays, and has the log directory of this partition."""
    broker = state.brokers.get(replica)
    if broker is None or replica == brokers.leaving:
        return False
    if not broker.is_usable and replica != brokers.joining:
        return False
    return broker.has_directory(partition.directory(replica))


def _sets(
    before: PartitionImage, isr: tuple[NodeId, ...], in_sync_min: int, brokers: BrokerChange
) -> _After:
    if len(isr) >= in_sync_min:
        return _After(isr, ())
    lost = brokers.leaving if brokers.has_lost_records else None
    have_all = {*before.isr, *before.elr}
    return _After(
        isr,
        tuple(
            node
            for node in before.replicas
            if node in have_all and node not in isr and node != lost
        ),
    )


def _elect(
    state: ControllerState,
    before: PartitionImage,
    after: _After,
    election: Election,
    brokers: BrokerChange,
) -> _Elected:
    candidates = after.isr or after.elr
    first = before.replicas[0] if election == Election.PREFERRED else before.leader
    for replica in (first, before.leader, *before.replicas):
        if replica in candidates and can_lead(state, before, replica, brokers):
            return _Elected(replica)
    last = _last_known_leader(state, before, brokers)
    if last is not None and (not candidates or election == Election.UNCLEAN):
        return _Elected(last, is_clean=False)
    if election == Election.UNCLEAN:
        for replica in before.replicas:
            if can_lead(state, before, replica, brokers):
                return _Elected(replica, is_clean=False)
    return _Elected(None)


def _last_known_leader(
    state: ControllerState, before: PartitionImage, brokers: BrokerChange
) -> NodeId | None:
    """The last leader, if it is back with the disk on which it led."""
    if len(before.last_known_elr) != 1:
        return None
    last = before.last_known_elr[0]
    if last not in before.replicas or not can_lead(state, before, last, brokers):
        return None
    return last


def _last_known(
    before: PartitionImage, isr: tuple[NodeId, ...], leader: NodeId | None
) -> tuple[NodeId, ...]:
    """Who led last, while nobody leads."""
    if leader is not None:
        return ()
    if before.leader is not None:
        return (before.leader,)
    if not before.last_known_elr and not isr and len(before.isr) == 1:
        # A partition of a cluster that had no eligible replicas yet: its in-sync set was not
        # emptied when it lost its leader.
        return before.isr
    return before.last_known_elr


def _record(
    place: Place,
    before: PartitionImage,
    *,
    isr: tuple[NodeId, ...],
    elr: tuple[NodeId, ...],
    leader: NodeId | None,
    last_known_elr: tuple[NodeId, ...],
    recovery: LeaderRecovery,
) -> PartitionChangeRecord | None:
    """What is different from before. A leader that is named begins a new leader epoch."""
    assert leader is None or leader in isr, (place, leader, isr)
    assert isr or elr or last_known_elr or not (before.isr or before.last_known_elr), place
    record = PartitionChangeRecord(topic_id=place.topic_id, partition_id=place.partition)
    unchanged = PartitionChangeRecord(topic_id=place.topic_id, partition_id=place.partition)
    assert record.leader == LEADER_UNCHANGED
    assert record.leader_recovery_state == RECOVERY_UNCHANGED
    if isr != before.isr:
        record.isr = list(isr)
    if elr != before.elr:
        record.eligible_leader_replicas = list(elr)
    if leader != before.leader:
        record.leader = NO_LEADER if leader is None else leader
    if last_known_elr != before.last_known_elr:
        record.last_known_elr = list(last_known_elr)
    if recovery != before.leader_recovery_state:
        record.leader_recovery_state = recovery
    return None if record == unchanged else record
