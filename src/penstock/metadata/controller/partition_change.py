"""How one partition changes: who holds it, who is in sync, who is eligible, who leads.

Every decision that changes replicas, an in-sync set or a leader comes through here (KIP-966):

- A replica that leaves the in-sync set while that has fewer members than `min.insync.replicas`
  becomes eligible: from here on the high watermark stands still, so the replica has all records
  below it. As soon as enough replicas are in sync again, nobody is eligible any more.
- A replica that may have lost records is neither in sync nor eligible.
- The leader is an in-sync replica; if there is none, an eligible one, which is then the only one in
  sync; if there is none, the last leader that was known. Any other replica leads only after an
  unclean election. The last two may lack records: the new leader is marked RECOVERING.
- A last known leader leads again only from the log directory in which it had led. Otherwise its
  disk was replaced, and an operator has to decide.
- A reassignment is complete as soon as its whole target is in sync, and one of the target can lead
  and was heard from lately: nobody leaves an in-sync set to the silent (`fencing`). In the same
  change the others are dropped, and another one leads if the leader was one of them. A new leader
  epoch begins when replicas are dropped, so that they are not taken for followers, and when more
  replicas than before are needed in sync, so that the leader knows that together with the in-sync
  set: it learns new epochs from the metadata alone, and not from replies before.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from penstock.metadata.controller.assignment import Assignment, Nodes
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.placement import directory_on
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
    """What the decision is about to say of brokers, which the state does not show yet."""

    leaving: frozenset[NodeId] = frozenset()  # they lead nothing from now on
    has_lost_records: bool = False  # those that leave, for all that is known
    joining: NodeId | None = None  # it is unfenced
    speaking: NodeId | None = None  # it was silent


NO_BROKER_CHANGE = BrokerChange()


class _Elected(NamedTuple):
    leader: NodeId | None
    is_clean: bool = True


class _Sets(NamedTuple):
    isr: Nodes
    elr: Nodes


class _After(NamedTuple):
    """A partition after the change."""

    assigned: Assignment
    sets: _Sets
    elected: _Elected


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
    assignment: Assignment | None = None,
    election: Election | None = None,
    brokers: BrokerChange = NO_BROKER_CHANGE,
    recovery: LeaderRecovery | None = None,
) -> PartitionChangeRecord | None:
    """The record that makes `isr` the in-sync set and `assignment` the replicas, completes a
    reassignment, and elects a leader if one is needed; None if nothing changes. The settings of the
    topic decide whom to elect unless `election` does.
    """
    before = context.state.partition(place)
    election = election_of(context, place) if election is None else election
    change = _Change(context, place, election, brokers)
    assigned, (in_sync, eligible), elected = change.after(
        Assignment.of(before) if assignment is None else assignment,
        before.isr if isr is None else tuple(isr),
    )
    if not elected.is_clean:
        recovery = LeaderRecovery.RECOVERING
    return _record(
        context.state,
        place,
        assigned,
        isr=in_sync,
        elr=eligible,
        leader=elected.leader,
        last_known_elr=_last_known(before, assigned, in_sync, elected.leader),
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
    if broker is None or replica in brokers.leaving or replica not in partition.replicas:
        return False
    if not broker.is_usable and replica != brokers.joining:
        return False
    return broker.has_directory(partition.directory(replica))


class _Change:
    """How one partition is changed: `after` says to what."""

    def __init__(
        self, context: DecisionContext, place: Place, election: Election, brokers: BrokerChange
    ) -> None:
        self._context = context
        self._state = context.state
        self._before = self._state.partition(place)
        self._topic = self._state.topics_by_id[place.topic_id].name
        self._election = election
        self._brokers = brokers

    def after(self, assigned: Assignment, isr: Nodes) -> _After:
        if self._is_complete(assigned, isr):
            return self._led(assigned.completed(), assigned.target)
        after = self._led(assigned, isr)
        if after.elected.is_clean and self._is_complete(assigned, after.sets.isr):
            # The target was eligible, and has just been elected.
            return self._led(assigned.completed(), assigned.target)
        return after

    def _is_complete(self, assigned: Assignment, isr: Nodes) -> bool:
        return (
            assigned.is_changing
            and set(assigned.target) <= set(isr)
            and any(
                self._can_lead(replica) and not self._is_silent(replica)
                for replica in assigned.target
            )
        )

    def _led(self, assigned: Assignment, isr: Nodes) -> _After:
        """The partition with these replicas, these in sync, and a leader if one can be had."""
        in_sync_min = min_in_sync(self._state, self._topic, replicas=assigned.replica_count)
        sets = self._sets(assigned, isr, in_sync_min)
        elected = self._elect(assigned, sets)
        in_sync, eligible = sets
        if elected.leader is not None and elected.leader not in in_sync:
            in_sync = (elected.leader,)
            eligible = tuple(node for node in eligible if node != elected.leader)
        if not elected.is_clean or len(in_sync) >= in_sync_min:
            eligible = ()
        return _After(assigned, _Sets(in_sync, eligible), elected)

    def _sets(self, assigned: Assignment, isr: Nodes, in_sync_min: int) -> _Sets:
        if len(isr) >= in_sync_min:
            return _Sets(isr, ())
        brokers, before = self._brokers, self._before
        lost = brokers.leaving if brokers.has_lost_records else frozenset()
        have_all = {*before.isr, *before.elr}
        return _Sets(
            isr,
            tuple(
                node
                for node in assigned.replicas
                if node in have_all and node not in isr and node not in lost
            ),
        )

    def _elect(self, assigned: Assignment, sets: _Sets) -> _Elected:
        candidates = sets.isr or sets.elr
        replicas, present = assigned.replicas, self._before.leader
        first = replicas[0] if self._election == Election.PREFERRED else present
        # Of those that can lead, one that was heard from lately comes first.
        for replica in (first, present, *sorted(replicas, key=self._is_silent)):
            if replica in candidates and (self._can_lead(replica) or self._leads_on(replica)):
                return _Elected(replica)
        last = self._last_known_leader(assigned)
        if last is not None and (not candidates or self._election == Election.UNCLEAN):
            return _Elected(last, is_clean=False)
        if self._election == Election.UNCLEAN:
            # One that is being added may have nothing yet: the others come first.
            for replica in (*assigned.original, *replicas):
                if self._can_lead(replica):
                    return _Elected(replica, is_clean=False)
        return _Elected(None)

    def _last_known_leader(self, assigned: Assignment) -> NodeId | None:
        """The last leader, if it is back with the disk on which it led."""
        if len(self._before.last_known_elr) != 1:
            return None
        last = self._before.last_known_elr[0]
        return last if last in assigned.replicas and self._can_lead(last) else None

    def _leads_on(self, replica: NodeId) -> bool:
        """Whether it is the leader, and lives: one that shuts down leads until it hands over."""
        broker = self._state.brokers.get(replica)
        return (
            replica == self._before.leader
            and replica not in self._brokers.leaving
            and broker is not None
            and not broker.fenced
            and broker.has_directory(self._before.directory(replica))
        )

    def _is_silent(self, replica: NodeId) -> bool:
        if replica == self._brokers.speaking:
            return False
        return self._context.sessions.is_silent(replica, self._context.now_ms)

    def _can_lead(self, replica: NodeId) -> bool:
        return can_lead(self._state, self._before, replica, self._brokers)


def _last_known(
    before: PartitionImage, assigned: Assignment, isr: Nodes, leader: NodeId | None
) -> Nodes:
    """Who led last, while nobody leads."""
    if leader is not None:
        return ()
    last = before.last_known_elr
    if before.leader is not None:
        last = (before.leader,)
    elif not last and not isr and len(before.isr) == 1:
        # A partition of a cluster that had no eligible replicas yet: its in-sync set was not
        # emptied when it lost its leader.
        last = before.isr
    return tuple(node for node in last if node in assigned.replicas)


def _record(
    state: ControllerState,
    place: Place,
    assigned: Assignment,
    *,
    isr: Nodes,
    elr: Nodes,
    leader: NodeId | None,
    last_known_elr: Nodes,
    recovery: LeaderRecovery,
) -> PartitionChangeRecord | None:
    """What is different from before. A leader that is named begins a new leader epoch."""
    before = state.partition(place)
    assert leader is None or leader in isr, (place, leader, isr)
    assert set(isr) <= set(assigned.replicas), (place, isr, assigned)
    assert isr or elr or last_known_elr or not (before.isr or before.last_known_elr), place
    record = PartitionChangeRecord(topic_id=place.topic_id, partition_id=place.partition)
    unchanged = PartitionChangeRecord(topic_id=place.topic_id, partition_id=place.partition)
    assert record.leader == LEADER_UNCHANGED
    assert record.leader_recovery_state == RECOVERY_UNCHANGED
    if isr != before.isr:
        record.isr = list(isr)
    if elr != before.elr:
        record.eligible_leader_replicas = list(elr)
    drops_some = not set(before.replicas) <= set(assigned.replicas)
    needs_others = assigned.replica_count != before.replica_count
    if leader != before.leader or ((drops_some or needs_others) and leader is not None):
        record.leader = NO_LEADER if leader is None else leader
    if assigned.replicas != before.replicas:
        record.replicas = list(assigned.replicas)
        record.directories = [
            before.directory(node) if node in before.replicas else directory_on(state, node)
            for node in assigned.replicas
        ]
    if assigned.adding != before.adding_replicas:
        record.adding_replicas = list(assigned.adding)
    if assigned.removing != before.removing_replicas:
        record.removing_replicas = list(assigned.removing)
    if last_known_elr != before.last_known_elr:
        record.last_known_elr = list(last_known_elr)
    if recovery != before.leader_recovery_state:
        record.leader_recovery_state = recovery
    return None if record == unchanged else record
