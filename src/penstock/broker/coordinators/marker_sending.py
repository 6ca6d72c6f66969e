"""Markers on their way: from a decided transaction into its partitions, however long that takes.

What can be written at once is, in the step of the decision, unless it is much: a transaction may
have thousands of partitions, and a shard that was just loaded thousands of decisions. `run` sees to
the rest, with turns for others in between. What another node leads is handed to `marker_requests`,
which hands each marker back when it is written.

A marker counts as written when it is committed. A partition that is gone counts as well, and so
does one that has moved on to a later epoch: the transaction is over there.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import field

from penstock.broker.controller.links import Links
from penstock.broker.coordinators.led_host import Stage
from penstock.broker.coordinators.led_transactions import LedTransactions
from penstock.broker.coordinators.marker_requests import MarkerRequests
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.waiting import all_acked
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.replication.leader import Refusal
from penstock.replication.marker import Marker
from penstock.replication.partition import Partition
from penstock.transactions.markers import MarkersWritten, SendMarkers
from penstock.world.errors import DiskError
from penstock.world.ports import Clock
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

RETRY_SECONDS, RETRY_SECONDS_MAX = 0.1, 5.0
COMMIT_WAIT_MS = 1000
MARKERS_PER_TURN = 100
# There is nothing to end where the partition, or the transaction in it, is no more.
OVER = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH)

# Whether the report was taken; False: it is to be made again.
Reports = Callable[[LedTransactions, MarkersWritten], bool]
Written = tuple[Partition, Offset]
WriteMarker = Callable[[TopicPartition, Marker], Written | ErrorCode]


@dataclass(slots=True, kw_only=True)
class Sending:
    """The markers of one decision."""

    led: LedTransactions
    markers: SendMarkers
    left: list[TopicPartition]  # to be tried, in this round
    refused: list[TopicPartition] = field(default_factory=list)  # and in the next one
    written: list[Written] = field(default_factory=list)  # and perhaps not committed yet
    elsewhere: set[TopicPartition] = field(default_factory=set)  # other nodes write them
    is_watched: bool = False  # a task sees to what has to be done here
    logged: dict[TopicPartition, ErrorCode] = field(default_factory=dict)  # refusals in the log


class MarkerSending:
    """See the module. `write` writes one marker, `report` tells the shard that all are."""

    def __init__(self, *, write: WriteMarker, report: Reports) -> None:
        self._write = write
        self._report = report
        self._requests: MarkerRequests[Sending] | None = None  # None: a node alone
        self._queue: deque[Sending] = deque()
        self._unfinished: deque[Sending] = deque()
        self._to_send = asyncio.Event()

    def send_to_others(self, links: Links, *, node_id: NodeId, clock: Clock) -> None:
        """Makes this one node of several: what others lead is sent to them."""
        self._requests = MarkerRequests(
            links=links,
            node_id=node_id,
            clock=clock,
            is_wanted=_is_wanted,
            finished=self._finished_elsewhere,
            returned=self._returned,
            refused=self._log_refusal,
        )

    def check(self) -> None:
        if self._requests is not None:
            self._requests.check()

    def apply(self, delta: Delta, image: Image) -> None:
        """Follows a change of the metadata, after the partitions have."""
        if self._requests is not None:
            self._requests.apply(delta, image)

    def send(self, led: LedTransactions, markers: SendMarkers) -> None:
        """Queues them; `flush` writes, once the decision has been carried out whole."""
        self._queue.append(Sending(led=led, markers=markers, left=list(markers.partitions)))
        self._to_send.set()

    def flush(self) -> None:
        """Writes what was queued, as far as it can be done without waiting, and without others
        having to wait for long.
        """
        marker_count = 0
        while self._queue and marker_count < MARKERS_PER_TURN:
            sending = self._queue.popleft()
            if sending.led.host.stage is not Stage.LOADED:
                continue  # another coordinator sends them
            marker_count += len(sending.left)
            self._take_turn(sending)

    async def run(self) -> None:
        """Sees to what has to wait, until cancelled."""
        async with TaskGroup() as tasks:
            if self._requests is not None:
                tasks.start(self._requests.run())
            while True:
                await self._to_send.wait()
                self._to_send.clear()
                self.flush()
                while self._unfinished:
                    tasks.start(self._finish(self._unfinished.popleft()))
                if self._queue:
                    self._to_send.set()
                    await asyncio.sleep(0)

    async def _finish(self, sending: Sending) -> None:
        wait_seconds = RETRY_SECONDS
        while sending.led.host.stage is Stage.LOADED:
            if sending.left:
                await asyncio.sleep(0)
            elif _waits_for_others(sending):
                break  # the last of their replies goes on with it
            elif sending.written and not sending.refused:
                await all_acked(sending.written, all_acks=True, wait_ms=COMMIT_WAIT_MS)
            else:
                # A marker was refused, or all are committed and the journal took no report of it.
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, RETRY_SECONDS_MAX)
                sending.left += sending.refused
                sending.refused = []
            if self._advance(sending):
                break
        sending.is_watched = False

    def _take_turn(self, sending: Sending) -> None:
        """What is left to do here afterwards, a task does."""
        assert not sending.is_watched
        if not self._advance(sending) and not _waits_for_others(sending):
            sending.is_watched = True
            self._unfinished.append(sending)
            self._to_send.set()

    def _finished_elsewhere(self, sending: Sending, name: TopicPartition) -> None:
        sending.elsewhere.discard(name)
        if not sending.elsewhere and not sending.is_watched and _is_wanted(sending):
            self._take_turn(sending)

    def _returned(self, sending: Sending, name: TopicPartition) -> None:
        """This node leads the partition now."""
        sending.elsewhere.discard(name)
        sending.left.append(name)
        if not sending.is_watched and _is_wanted(sending):
            self._take_turn(sending)

    def _advance(self, sending: Sending) -> bool:
        """Takes a turn: whether nothing is left to do."""
        markers = sending.markers
        marker = Marker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            coordinator_epoch=markers.coordinator_epoch,
            committed=markers.commit,
            transaction_version=markers.transaction_version,
        )
        for name in sending.left[:MARKERS_PER_TURN]:
            outcome = self._write(name, marker)
            if not isinstance(outcome, ErrorCode):
                sending.written.append(outcome)
            elif outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._leave_to_leader(
                sending, name
            ):
                continue
            elif outcome not in OVER:
                sending.refused.append(name)
                self._log_refusal(sending, name, outcome)
        del sending.left[:MARKERS_PER_TURN]
        if sending.left:
            return False
        sending.written = [
            (partition, offset)
            for partition, offset in sending.written
            if partition.high_watermark < offset
        ]
        # A partition that ended before its marker was committed gets another one.
        for partition, _ in sending.written:
            if partition.has_ended:
                sending.refused.append(partition.name)
        sending.written = [one for one in sending.written if not one[0].has_ended]
        if sending.refused or sending.written or sending.elsewhere:
            return False
        return self._report(
            sending.led,
            MarkersWritten(
                transactional_id=markers.transactional_id,
                number=markers.number,
                coordinator_epoch=markers.coordinator_epoch,
                partitions=markers.partitions,
            ),
        )

    def _leave_to_leader(self, sending: Sending, name: TopicPartition) -> bool:
        """Whether another node leads the partition, or will: it gets a request."""
        if self._requests is None or not self._requests.takes(name):
            return False
        sending.elsewhere.add(name)
        self._requests.add(sending, sending.markers, name)
        return True

    def _log_refusal(self, sending: Sending, name: TopicPartition, code: ErrorCode) -> None:
        """Once, however often it is tried: it may go on for long."""
        if sending.logged.get(name) is not code:
            sending.logged[name] = code
            transactional_id = sending.markers.transactional_id
            logger.warning("marker transactional_id=%s partition=%s refused=%s",
                           transactional_id, name, code.name)  # fmt: skip


def _is_wanted(sending: Sending) -> bool:
    return sending.led.host.stage is Stage.LOADED


def _waits_for_others(sending: Sending) -> bool:
    return bool(sending.elsewhere) and not (sending.left or sending.refused or sending.written)


def write_marker(
    partitions: Partitions, name: TopicPartition, marker: Marker, *, clock: Clock
) -> Written | ErrorCode:
    """Writes a marker to a partition that is led here: where it must be committed up to."""
    partition = partitions.find(*name)
    if not isinstance(partition, Partition):
        return partition
    try:
        outcome = partition.end_transaction(marker, now_ms=clock.now_ms())
    except DiskError as error:
        partitions.append_failed(partition, error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(outcome, Refusal):
        return outcome.code
    if partition.wants_sync:
        partitions.want_sync(partition)
    return partition, outcome
