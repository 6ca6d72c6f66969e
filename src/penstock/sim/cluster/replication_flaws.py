"""Bugs of replication to be planted in every node; see `flaws`, which plants them."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.broker.request import follower_fetch
from penstock.metadata.controller import brokers
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.image.broker import BrokerImage
from penstock.replication import replica
from penstock.replication.followers import Followers
from penstock.replication.partition import Partition
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
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
