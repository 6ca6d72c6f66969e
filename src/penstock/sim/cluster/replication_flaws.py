"""Bugs of replication to be planted in every node; see `flaws`, which plants them."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.broker.api import list_offsets
from penstock.broker.request import follower_fetch
from penstock.log.partition_log import PartitionLog
from penstock.log.reading import LogSlice, ReadBounds
from penstock.metadata.controller import brokers, partition_change
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.image.broker import BrokerImage
from penstock.model.offset import Offset
from penstock.replication import leader, replica
from penstock.replication.followers import Followers
from penstock.replication.partition import Partition
from penstock.replication.replica import Replica
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.list_offsets import ListOffsetsRequest
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord

Change = tuple[object, str, Any]  # whose, which, and what it becomes


def ack_before_replication() -> list[Change]:
    return [(Followers, "counted_ends", lambda self: [])]


def cut_off_leader_acks() -> list[Change]:
    """A leader goes on without followers that lag, whatever the controller says to that, and with
    as few as are left.
    """
    propose, recount = Partition.in_sync_change, Followers._recount

    def propose_and_go_on(self: Partition, **arguments: Any) -> Any:
        change = propose(self, **arguments)
        if change is not None and len(change.members) < len(self.followers.in_sync):
            self.followers.commit(
                replicas=self.followers.replicas,
                in_sync=[node for node, _ in change.members],
                recovering=False,
                now_ms=arguments["now_ms"],
            )
            self._in_sync_changed()
        return change

    def recount_as_enough(self: Followers) -> None:
        recount(self)
        self.are_enough = True

    return [
        (Partition, "in_sync_change", propose_and_go_on),
        (Followers, "_recount", recount_as_enough),
    ]


def place_kept() -> list[Change]:
    """A broker that registers again is in sync as before, whatever it has lost; what it led it
    leads in a new epoch.
    """
    return [(brokers, "_replaced", _led_in_a_new_epoch)]


def ack_before_sync() -> list[Change]:
    """Acks do not wait for syncs, though the settings of their topic say so."""
    return [(replica, "sync_records_of", lambda settings: None)]


def wiped_taken_for_clean() -> list[Change]:
    """So is one that comes back without a log directory, and no other."""
    replaced = brokers._replaced

    def replaced_unless_wiped(
        context: DecisionContext, present: BrokerImage, request: BrokerRegistrationRequest
    ) -> Iterator[PartitionChangeRecord]:
        is_wiped = not set(present.directories) <= set(request.log_dirs)
        return (_led_in_a_new_epoch if is_wiped else replaced)(context, present, request)

    return [(brokers, "_replaced", replaced_unless_wiped)]


def _led_in_a_new_epoch(
    context: DecisionContext, present: BrokerImage, request: BrokerRegistrationRequest
) -> Iterator[PartitionChangeRecord]:
    for place in sorted(context.state.replicated_by(present.node_id)):
        if context.state.partition(place).leader == present.node_id:
            yield PartitionChangeRecord(
                topic_id=place.topic_id, partition_id=place.partition, leader=present.node_id
            )


def divergence_not_told() -> list[Change]:
    """A follower keeps records that its leader does not have, and appends to them."""
    return [(follower_fetch, "diverged", lambda *found, **asked: None)]


def never_joins() -> list[Change]:
    """A follower that has caught up is not taken into the in-sync set again."""
    return [(Followers, "can_be_added", lambda self, state, *, high_watermark: False)]


def watermark_forgotten() -> list[Change]:
    """By a follower that becomes the leader: it begins at the start of its log."""
    init: Callable[..., None] = Partition.__init__

    def forget(self: Partition, *arguments: Any, **rest: Any) -> None:
        rest["high_watermark"] = None
        init(self, *arguments, **rest)

    return [(Partition, "__init__", forget)]


def tail_cut() -> list[Change]:
    """A follower that becomes the leader cuts off what it does not know to be committed, as Apache
    Kafka's followers did before KIP-101.
    """
    init: Callable[..., None] = Partition.__init__

    def cut(self: Partition, log: PartitionLog, **rest: Any) -> None:
        known = rest["high_watermark"]
        if known is not None and log.start_offset <= known < log.end_offset:
            log.truncate_to(known)
        init(self, log, **rest)

    return [(Partition, "__init__", cut)]


def last_batch_hidden() -> list[Change]:
    """Readers get, and are told of, all but the last batch of a partition."""
    end_for: Callable[..., Offset] = list_offsets._end_for

    def end_shown(of: Replica) -> Offset:
        last = next(of.log.batches_from(Offset(of.high_watermark - 1)), None)
        return of.log.start_offset if last is None else max(of.log.start_offset, last.base_offset)

    def read_less(
        self: Replica, offset: int, *, size_bytes_max: int, oversized_first: bool, **_: bool
    ) -> LogSlice | None:
        until_offset = end_shown(self)
        if offset >= until_offset:
            return None
        return self.log.read(
            ReadBounds(
                from_offset=Offset(offset),
                until_offset=until_offset,
                size_bytes_max=max(0, size_bytes_max),
                oversized_first=oversized_first,
            )
        )

    def end_told(of: Replica, request: ListOffsetsRequest) -> Offset:
        return min(end_shown(of), end_for(of, request))

    return [(Replica, "read", read_less), (list_offsets, "_end_for", end_told)]


def segment_end_not_passed() -> list[Change]:
    """A reader that has come to the end of a segment gets nothing more."""
    read = Replica.read

    def read_within(self: Replica, offset: int, **how: Any) -> LogSlice | None:
        if any(segment.base_offset == offset for segment in self.log.segments[1:]):
            return None
        return read(self, offset, **how)

    return [(Replica, "read", read_within)]


def duplicate_taken() -> list[Change]:
    """A leader appends a batch that it has already, when it is sent again."""
    check = leader.check_sequence

    def check_unless_duplicate(batch: Any, producer: Any) -> Any:
        verdict = check(batch, producer)
        return None if isinstance(verdict, leader.Duplicate) else verdict

    return [(leader, "check_sequence", check_unless_duplicate)]


def eligible_not_elected() -> list[Change]:
    """A partition in which nobody is in sync elects none of those who are eligible by itself."""
    elect = partition_change._Change._elect

    def elect_in_sync(self: Any, assigned: Any, sets: Any) -> Any:
        if not sets.isr and sets.elr and self._election is not partition_change.Election.UNCLEAN:
            return partition_change._Elected(None)
        return elect(self, assigned, sets)

    return [(partition_change._Change, "_elect", elect_in_sync)]
