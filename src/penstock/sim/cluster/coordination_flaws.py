"""Bugs of coordinators to be planted in every node; see `flaws`, which plants them."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from penstock.broker.controller.links import Lane, Links
from penstock.broker.coordinators.fencing_log import Client
from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.coordinators.writer_stopping import stop_elsewhere
from penstock.client.network.errors import ClientError
from penstock.groups.consumer import advance
from penstock.groups.consumer.member import ConsumerMember
from penstock.groups.consumer.reconcile import reconcile
from penstock.groups.replay import LatestRecords
from penstock.log.partition_log import PartitionLog
from penstock.machine.host import Host
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.batch import BatchView, whole_batch
from penstock.records.build import build_batch
from penstock.records.iterate import records_of
from penstock.replication import leader, replica
from penstock.replication.marker import Marker
from penstock.replication.partition import Partition
from penstock.replication.refused_sequences import RefusedSequences
from penstock.sim.cluster.replication_flaws import Change
from penstock.sim.errors import ProcessKilled
from penstock.transactions import decide
from penstock.transactions.marker_senders import MarkerSenders
from penstock.transactions.markers import StopWriter
from penstock.transactions.shard import TransactionShard
from penstock.wire.definition import Message
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.world.errors import NetworkError

EARLY_MS = 500
LATE_MS = 400


def open_transaction_read() -> list[Change]:
    """Readers of committed records get all that is below the high watermark."""
    return [(replica, "last_stable_offset", lambda *, high_watermark, **_: high_watermark)]


def result_lost() -> list[Change]:
    """One of many markers is written as that of an abort, whatever was decided."""
    write = TransactionCoordinator.write_marker
    markers = count(1)

    def write_another(
        self: TransactionCoordinator, name: TopicPartition, marker: Marker, **more: Any
    ) -> Any:
        if next(markers) % 20 == 0:
            marker = replace(marker, committed=False)
        return write(self, name, marker, **more)

    return [(TransactionCoordinator, "write_marker", write_another)]


def offsets_not_loaded() -> list[Change]:
    """A new coordinator of groups leaves out some batches of its journal."""
    add = LatestRecords.add
    batches = count(1)

    def add_most(self: LatestRecords, batch: BatchView) -> None:
        if next(batches) % 5:
            add(self, batch)

    return [(LatestRecords, "add", add_most)]


def reply_forgotten() -> list[Change]:
    """A coordinator of transactions forgets one of many replies that have waited for a commit."""
    advance_to = Host.advance
    replies = count(1)

    def advance_and_forget(self: Host[Any, Any], watermark: Offset) -> None:
        if isinstance(self._machine, TransactionShard):
            for held in self._held._waiting:
                if held.until_offset <= watermark and next(replies) % 30 == 0:
                    held.answer = None
        advance_to(self, watermark)

    return [
        (Host, "advance", advance_and_forget),
        (LedTransactions, "_notify_end", lambda self: None),  # it would find out
    ]


def markers_not_resumed() -> list[Change]:
    """A new coordinator does not send the markers that the one before has not sent."""
    return [(decide, "resume", lambda shard, some: ())]


def marker_of_another_epoch() -> list[Change]:
    """A leader writes markers whatever leader epoch and whatever request they belong to. What comes
    late is not left to chance: see `late_markers`.
    """
    write = TransactionCoordinator.write_marker

    def write_any(self: TransactionCoordinator, name: Any, marker: Any, **_: Any) -> Any:
        return write(self, name, marker)

    return [
        (TransactionCoordinator, "write_marker", write_any),
        (MarkerSenders, "is_latest", lambda self, sender: True),
        *late_markers(),
    ]


def late_markers() -> list[Change]:
    """No bug, but bad luck: a request for markers comes once more when a later one of the same node
    is done, as one does that was sent again because its first connection had broken.
    """
    ask = Links.ask
    earlier: WeakKeyDictionary[Links, dict[int, Message]] = WeakKeyDictionary()
    repeating: set[asyncio.Task[None]] = set()

    async def ask_and_repeat(
        self: Links, node_id: Any, request: Any, *rest: Any, **more: Any
    ) -> Any:
        reply = await ask(self, node_id, request, *rest, **more)
        if more["lane"] is Lane.MARKERS:
            before = earlier.setdefault(self, {}).get(node_id)
            if before is not None:
                task = asyncio.ensure_future(repeat(self, node_id, before, *rest, **more))
                repeating.add(task)
                task.add_done_callback(repeating.discard)
            earlier[self][node_id] = request
        return reply

    async def repeat(self: Links, node_id: Any, request: Message, *rest: Any, **more: Any) -> None:
        with suppress(ClientError, NetworkError, ProcessKilled):
            await asyncio.sleep(LATE_MS / 1000)
            await ask(self, node_id, request, *rest, **more)

    return [(Links, "ask", ask_and_repeat)]


def guard_dropped_early() -> list[Change]:
    """Who takes over a prepared transaction has its writer stopped some time before the new epoch
    is committed, and not once it is.
    """
    ask, stop_here = TransactionCoordinator.ask, TransactionCoordinator._stop_writer

    def stop_and_ask(
        self: TransactionCoordinator,
        transactional_id: str,
        request: Any,
        *,
        version: int,
        client: Client | None = None,
    ) -> Any:
        if isinstance(request, InitProducerIdRequest) and request.keep_prepared_txn:
            return asyncio.ensure_future(stop_first(self, transactional_id, request, version))
        return ask(self, transactional_id, request, version=version, client=client)

    async def stop_first(
        self: TransactionCoordinator, transactional_id: str, request: Any, version: int
    ) -> Any:
        found = self._shards.find(transactional_id).shard.transactions.get(transactional_id)
        if found is not None and self._links is not None:
            stop = StopWriter(producer_id=found.producer_id, partitions=found.partitions)
            stop_here(self, stop)
            await stop_elsewhere(self._links, stop, self._image, node_id=self._node_id)
            await asyncio.sleep(EARLY_MS / 1000)
        reply = ask(self, transactional_id, request, version=version)
        return await reply if isinstance(reply, asyncio.Future) else reply

    async def is_stopped(self: TransactionCoordinator, transactional_id: str) -> bool:
        return True

    return [
        (TransactionCoordinator, "ask", stop_and_ask),
        (TransactionCoordinator, "stop_writer_elsewhere", is_stopped),
        (TransactionCoordinator, "_stop_writer", lambda self, stop: None),
    ]


def sequence_gap_taken() -> list[Change]:
    """A leader appends batches of an idempotent producer in whatever order they come."""
    check = leader.check_sequence

    def check_unless_gap(batch: Any, producer: Any) -> Any:
        verdict = check(batch, producer)
        return None if verdict is not None and leader._is_gap(verdict) else verdict

    return [
        (leader, "check_sequence", check_unless_gap),
        (RefusedSequences, "code_of_earlier", lambda self, batch, *, now_ms: None),
    ]


def partition_given_twice() -> list[Change]:
    """A member of a group is moved to a new epoch with all that it had, and others get theirs."""

    def keep_and_take(member: ConsumerMember, **given: Any) -> ConsumerMember:
        given["target"] = given["target"] | frozenset(member.assigned)
        given["is_free"] = lambda partition: True
        return reconcile(member, **given)

    return [(advance, "reconcile", keep_and_take)]


def aborted_not_told() -> list[Change]:
    """Readers of committed records are not told which transactions were aborted."""
    return [(PartitionLog, "aborted_within", lambda self, **_: [])]


def records_reversed() -> list[Change]:
    """A leader writes the records of a transactional batch in reverse order."""
    append = Partition.append

    def append_reversed(self: Partition, data: memoryview, **how: Any) -> Any:
        batch = whole_batch(data)
        if batch is not None and batch.is_transactional:
            data = memoryview(reversed_batch(batch))
        return append(self, data, **how)

    def reversed_batch(batch: BatchView) -> bytearray:
        return build_batch(
            reversed([*records_of(batch)]),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=True,
        )

    return [(Partition, "append", append_reversed)]
