"""Bugs to be planted in every node: a checker counts once it has found the one that it is for.

Planting replaces functions of the product, in this process, until the simulation has ended. Those
of compiled modules cannot be replaced.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from enum import Enum
from types import ModuleType
from typing import Any

from penstock.broker.api import metadata
from penstock.broker.controller.active_controller import ActiveController
from penstock.broker.controller.decisions import Decisions
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.membership import Membership
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.broker.request.partition_view import PartitionView
from penstock.metadata.controller import brokers, decide
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.heartbeat import heartbeat
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.error import ErrorCode, PenstockError, RequestError
from penstock.model.offset import Offset
from penstock.sim.cluster import coordination_flaws, replication_flaws
from penstock.sim.cluster.replication_flaws import Change
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest


class ClusterFlaw(Enum):
    """What goes wrong on purpose."""

    REPLY_BEFORE_COMMIT = "reply-before-commit"  # of the active controller
    REPLY_BEFORE_IMAGE = "reply-before-image"  # of a node that forwards
    IMAGE_BEFORE_COMMIT = "image-before-commit"  # of the active controller's node
    IMAGE_BEFORE_CAUGHT_UP = "image-before-caught-up"  # the first one after a start
    METADATA_NOT_SYNCED = "metadata-not-synced"  # and taken for durable
    LEADER_EPOCH_KEPT = "leader-epoch-kept"  # by a broker that registers again
    UNFENCED_BEFORE_CAUGHT_UP = "unfenced-before-caught-up"
    NEVER_UNFENCED = "never-unfenced"  # a broker that was fenced while it lived
    FENCED_LEADER_SHOWN = "fenced-leader-shown"  # to clients
    ACK_BEFORE_REPLICATION = "ack-before-replication"
    CUT_OFF_LEADER_ACKS = "cut-off-leader-acks"  # with acks=all
    WATERMARK_FORGOTTEN = "watermark-forgotten"  # by a follower that becomes the leader
    WIPED_TAKEN_FOR_CLEAN = "wiped-taken-for-clean"  # a broker without the directories that it had
    PLACE_KEPT = "place-kept"  # in sync, by a broker that may have lost records
    ACK_BEFORE_SYNC = "ack-before-sync"  # where acks have to wait for it
    DIVERGENCE_NOT_TOLD = "divergence-not-told"  # to followers
    NEVER_JOINS = "never-joins"  # a follower that has caught up
    TAIL_CUT = "tail-cut"  # by a follower that becomes the leader
    LAST_BATCH_HIDDEN = "last-batch-hidden"  # from readers
    SEGMENT_END_NOT_PASSED = "segment-end-not-passed"  # by readers
    DUPLICATE_TAKEN = "duplicate-taken"  # by a leader
    ELIGIBLE_NOT_ELECTED = "eligible-not-elected"  # where nobody is in sync
    OPEN_TRANSACTION_READ = "open-transaction-read"  # by readers of what is committed
    RESULT_LOST = "result-lost"  # that of a transaction, in some of its partitions
    OFFSETS_NOT_LOADED = "offsets-not-loaded"  # some of them, by the next coordinator
    REPLY_FORGOTTEN = "reply-forgotten"  # one of many of a coordinator
    MARKERS_NOT_RESUMED = "markers-not-resumed"  # by the next coordinator
    MARKER_OF_ANOTHER_EPOCH = "marker-of-another-epoch"  # of the partition's leader, is written
    GUARD_DROPPED_EARLY = "guard-dropped-early"  # before the new producer epoch is committed
    SEQUENCE_GAP_TAKEN = "sequence-gap-taken"  # by a leader
    PARTITION_GIVEN_TWICE = "partition-given-twice"  # to members of a group
    ABORTED_NOT_TOLD = "aborted-not-told"  # to readers of what is committed
    RECORDS_REVERSED = "records-reversed"  # those of a transactional batch, by a leader


class CannotBePlanted(PenstockError):
    """A bug in code that is compiled."""


def refuse_compiled(flaw: ClusterFlaw) -> None:
    """CannotBePlanted if functions of compiled modules would have to be replaced."""
    for owner, _, _ in _changes(flaw):
        module = owner if isinstance(owner, ModuleType) else sys.modules[owner.__module__]
        if not str(module.__file__).endswith(".py"):
            raise CannotBePlanted(
                f"{flaw.value} changes {module.__name__}, which is compiled: run it where Penstock"
                " was installed with PENSTOCK_COMPILE=no"
            )


@contextmanager
def planted(flaw: ClusterFlaw | None) -> Iterator[None]:
    if flaw is None:
        yield
        return
    refuse_compiled(flaw)
    changes = _changes(flaw)
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for owner, name, function in changes:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


REPLICATION: Mapping[ClusterFlaw, Callable[[], list[Change]]] = {
    ClusterFlaw.ACK_BEFORE_REPLICATION: replication_flaws.ack_before_replication,
    ClusterFlaw.CUT_OFF_LEADER_ACKS: replication_flaws.cut_off_leader_acks,
    ClusterFlaw.WATERMARK_FORGOTTEN: replication_flaws.watermark_forgotten,
    ClusterFlaw.WIPED_TAKEN_FOR_CLEAN: replication_flaws.wiped_taken_for_clean,
    ClusterFlaw.PLACE_KEPT: replication_flaws.place_kept,
    ClusterFlaw.ACK_BEFORE_SYNC: replication_flaws.ack_before_sync,
    ClusterFlaw.DIVERGENCE_NOT_TOLD: replication_flaws.divergence_not_told,
    ClusterFlaw.NEVER_JOINS: replication_flaws.never_joins,
    ClusterFlaw.TAIL_CUT: replication_flaws.tail_cut,
    ClusterFlaw.LAST_BATCH_HIDDEN: replication_flaws.last_batch_hidden,
    ClusterFlaw.SEGMENT_END_NOT_PASSED: replication_flaws.segment_end_not_passed,
    ClusterFlaw.DUPLICATE_TAKEN: replication_flaws.duplicate_taken,
    ClusterFlaw.ELIGIBLE_NOT_ELECTED: replication_flaws.eligible_not_elected,
}


COORDINATION: Mapping[ClusterFlaw, Callable[[], list[Change]]] = {
    ClusterFlaw.OPEN_TRANSACTION_READ: coordination_flaws.open_transaction_read,
    ClusterFlaw.RESULT_LOST: coordination_flaws.result_lost,
    ClusterFlaw.OFFSETS_NOT_LOADED: coordination_flaws.offsets_not_loaded,
    ClusterFlaw.REPLY_FORGOTTEN: coordination_flaws.reply_forgotten,
    ClusterFlaw.MARKERS_NOT_RESUMED: coordination_flaws.markers_not_resumed,
    ClusterFlaw.MARKER_OF_ANOTHER_EPOCH: coordination_flaws.marker_of_another_epoch,
    ClusterFlaw.GUARD_DROPPED_EARLY: coordination_flaws.guard_dropped_early,
    ClusterFlaw.SEQUENCE_GAP_TAKEN: coordination_flaws.sequence_gap_taken,
    ClusterFlaw.PARTITION_GIVEN_TWICE: coordination_flaws.partition_given_twice,
    ClusterFlaw.ABORTED_NOT_TOLD: coordination_flaws.aborted_not_told,
    ClusterFlaw.RECORDS_REVERSED: coordination_flaws.records_reversed,
}


# Those that show with applications which keep their epoch, and wait for what they ask.
OF_GENERATION_1 = frozenset(
    {
        ClusterFlaw.MARKER_OF_ANOTHER_EPOCH,
        ClusterFlaw.MARKERS_NOT_RESUMED,
        ClusterFlaw.REPLY_FORGOTTEN,
        ClusterFlaw.RESULT_LOST,
    }
)
# Those that are looked for with clients of `transactions` alone: with applications another check
# would find them first.
OF_TRANSACTORS = frozenset({ClusterFlaw.ABORTED_NOT_TOLD})


def _changes(flaw: ClusterFlaw) -> list[Change]:
    if flaw in COORDINATION:
        return COORDINATION[flaw]()
    match flaw:
        case ClusterFlaw.REPLY_BEFORE_COMMIT:
            return _reply_before_commit()
        case ClusterFlaw.REPLY_BEFORE_IMAGE:
            return [(ActiveController, "image_reaches", _does_not_wait)]
        case ClusterFlaw.IMAGE_BEFORE_COMMIT:
            return _image_before_commit()
        case ClusterFlaw.IMAGE_BEFORE_CAUGHT_UP:
            return _image_before_caught_up()
        case ClusterFlaw.METADATA_NOT_SYNCED:
            return [(MetadataJournal, "unsynced", lambda self: [])]
        case ClusterFlaw.LEADER_EPOCH_KEPT:
            return [(brokers, "_replaced", lambda state, present, request: ())]
        case ClusterFlaw.UNFENCED_BEFORE_CAUGHT_UP:
            return _unfenced_before_caught_up()
        case ClusterFlaw.NEVER_UNFENCED:
            return _never_unfenced()
        case ClusterFlaw.FENCED_LEADER_SHOWN:
            return [(metadata, "view_partition", _view_with_fenced_leader)]
        case _:
            return REPLICATION[flaw]()


def _reply_before_commit() -> list[Change]:
    decide_one, submit = Decisions._decide, Decisions._submit
    replies: list[Any] = []

    def decide_and_note(self: Decisions, request: Any, requester: Any) -> Any:
        decision = decide_one(self, request, requester)
        replies.append(decision.reply)
        return decision

    def submit_and_answer(
        self: Decisions, request: Any, connection: object, *, answer: Any, **how: Any
    ) -> None:
        replies.clear()
        submit(self, request, connection, answer=answer, **how)
        if replies:
            answer(replies[-1])

    return [
        (Decisions, "_decide", decide_and_note),
        (Decisions, "_submit", submit_and_answer),
    ]


async def _does_not_wait(self: ActiveController, offset: Offset, *, deadline_ms: int) -> bool:
    return True


def _image_before_commit() -> list[Change]:
    submit = Decisions._submit

    def submit_and_publish(self: Decisions, *arguments: Any, **rest: Any) -> None:
        submit(self, *arguments, **rest)
        entries = self._journal.committed(self._journal.end_offset) if self.is_active else []
        if entries:
            self._feed.load(entries)

    return [(Decisions, "_submit", submit_and_publish)]


def _image_before_caught_up() -> list[Change]:
    open_it = LocalController.open

    def open_and_publish(self: LocalController) -> None:
        self._feed.publish_from(Offset(0))
        open_it(self)
        self._feed.publish_from(Offset(0))  # what the latest snapshot has

    return [(LocalController, "open", open_and_publish)]


def _unfenced_before_caught_up() -> list[Change]:
    def beat_of_anyone(context: DecisionContext, request: BrokerHeartbeatRequest) -> Any:
        request = copy(request)
        request.current_metadata_offset = request.broker_epoch
        return heartbeat(context, request)

    async def register_and_beat(self: Membership, registration: Any) -> int:
        """The first heartbeat does not wait for the image."""
        epoch = await register(self, registration)
        with suppress(RequestError):
            await self._beat()
        return epoch

    register = Membership.register
    return [(decide, "heartbeat", beat_of_anyone), (Membership, "register", register_and_beat)]


def _never_unfenced() -> list[Change]:
    beat = Membership._beat
    unfenced: set[Membership] = set()

    async def beat_if_not_fenced(self: Membership, *, shut_down: bool = False) -> Any:
        broker = self._local.image.brokers.get(self._node_id)
        if broker is not None and broker.epoch == self._broker_epoch:
            if not broker.fenced:
                unfenced.add(self)
            elif self in unfenced and not shut_down:
                await asyncio.Event().wait()
        return await beat(self, shut_down=shut_down)

    return [(Membership, "_beat", beat_if_not_fenced)]


def _view_with_fenced_leader(
    image: Image, partition: PartitionImage, listener: str, **_: bool
) -> PartitionView:
    leader = partition.replicas[0] if partition.leader is None else partition.leader
    return PartitionView(error_code=ErrorCode.NONE, leader_id=leader, offline_replicas=[])
