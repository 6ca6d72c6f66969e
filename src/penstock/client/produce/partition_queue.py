"""The batches of one partition on their way to its leader: what may be sent next, and what an
answer means.

Promises, for an idempotent producer: no record is written twice, none out of order, and one that
was given up holds back none of those behind it. The broker sees sequence numbers without gaps in
each epoch; epochs are counted for each partition by itself, since a broker keeps them for each
partition by itself.

Invariants:
 1. Batches that have been sent keep their order: on the wire first, then `waiting`, by sequence.
 2. In `waiting`, batches that have a sequence stand before those that have none.
 3. While a batch is sent again, nothing else of this partition is on the wire.
 4. No batch is numbered while there is a `gap`: sequence numbers in use whose batch was given up.
    The batches behind it are sent again first. Their answer tells whether the given-up one was
    written (they succeed) or not (they are out of order, thus certainly not written either); in
    the second case a new epoch begins and they are numbered again, unless a later one has been
    acked: then they are given up too, because they could only be written behind it.
 5. At most `ON_WIRE_MAX` batches are on the wire, because a broker remembers that many; one
    without idempotence.
 6. With idempotence nothing follows the first batch of an epoch before that is acked. A broker
    that knows nothing of a producer accepts any sequence number, and would accept the second batch
    although it has refused the first one a moment before: it did not lead the partition yet, or
    the markers of the last transaction were on their way. Or the first batch went to another
    broker, which led until then.
 7. After its last epoch a partition numbers nothing more (`out_of_epochs`): it waits for
    another producer id, whose epochs begin anew.

A transaction that has lost a batch is lost as a whole: its queues are abandoned, and invariant 4
is for those who write without one.
"""

from collections import deque
from collections.abc import Iterator

from penstock.client.network.errors import RETRIABLE, ClientError, Refused, TimedOut
from penstock.client.produce.pending_batch import PendingBatch
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.limit import REMEMBERED_BATCHES
from penstock.model.offset import Offset
from penstock.model.sequence import advance, is_later

ON_WIRE_MAX = REMEMBERED_BATCHES
EPOCH_MAX = 2**15 - 1
# The broker's state of this producer is not what we think: nothing of the batch was written.
_LOST_TRACK = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class PartitionQueue:
    def __init__(
        self,
        partition: TopicPartition,
        *,
        idempotent: bool,
        epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.idempotent = idempotent
        self.given_up: ClientError | None = None  # why the first batch was not delivered
        self.waiting: deque[PendingBatch] = deque()
        self.on_wire: list[PendingBatch] = []
        self.epoch = epoch
        self.acked_sequence: int | None = None  # of the latest batch of this epoch that was acked
        self.next_sequence = 0
        self.gap = False
        self.number_again = False
        self.out_of_epochs = False  # nothing is numbered before the producer has another id
        self.retry_at_ms = 0

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.on_wire

    @property
    def has_numbered(self) -> bool:
        """Whether a batch bears a number, on the wire or to be sent again."""
        return bool(self.on_wire) or (bool(self.waiting) and self.waiting[0].sequence is not None)

    @property
    def oldest_ordinal(self) -> int | None:
        """Of the batches that are left; None without any."""
        # Those that wait are in order; one that was sent before them may be on the wire or not.
        ordinals = [batch.ordinal for batch in self.on_wire]
        if self.waiting:
            ordinals.append(self.waiting[0].ordinal)
        return min(ordinals, default=None)

    def filling(self) -> PendingBatch | None:
        """The batch that takes new records, if there is one."""
        if not self.waiting:
            return None
        last = self.waiting[-1]
        return last if last.data is None and last.attempts == 0 else None

    def may_send(self, now_ms: int) -> bool:
        """Whether order and backoff allow the oldest waiting batch to leave; its linger is not
        asked.
        """
        if not self.waiting or now_ms < self.retry_at_ms:
            return False
        head = self.waiting[0]
        if not self.on_wire:
            return True
        if head.attempts > 0 or self.gap or not self.idempotent:
            return False
        if self.acked_sequence is None:
            return False
        return len(self.on_wire) < ON_WIRE_MAX and all(b.attempts == 1 for b in self.on_wire)

    def unsettled(self) -> Iterator[PendingBatch]:
        yield from self.on_wire
        yield from self.waiting

    def check(self) -> None:
        """The invariants that can be seen from here."""
        numbered = [batch.sequence is not None for batch in self.waiting]
        assert numbered == sorted(numbered, reverse=True), "invariant 2"
        if any(batch.attempts > 1 for batch in self.on_wire):
            assert len(self.on_wire) == 1, "invariant 3"
        assert len(self.on_wire) <= (ON_WIRE_MAX if self.idempotent else 1), "invariant 5"
        if self.idempotent and self.acked_sequence is None:
            assert len(self.on_wire) <= 1, "invariant 6"
        if self.out_of_epochs:
            assert not self.has_numbered, "invariant 7"

    def take(self) -> PendingBatch:
        """The oldest waiting batch, numbered, counted as on the wire from now on."""
        assert self.waiting
        batch = self.waiting.popleft()
        batch.attempts += 1
        if self.idempotent and batch.sequence is None:
            assert not self.gap, "invariant 4"
            assert not self.out_of_epochs, "invariant 7"
            batch.epoch = self.epoch
            batch.sequence = self.next_sequence
            self.next_sequence = advance(self.next_sequence, by=batch.record_count)
        self.on_wire.append(batch)
        return batch

    def acked(self, batch: PendingBatch, base_offset: Offset | None, time_ms: int | None) -> None:
        self.on_wire.remove(batch)
        self._note_acked(batch)
        batch.succeed(base_offset, time_ms)
        self._settle_gap()

    def failed(
        self, batch: PendingBatch, error: ClientError, *, now_ms: int, backoff_ms: int
    ) -> None:
        """An attempt came to nothing: send again if that can help, else give the batch up."""
        self.on_wire.remove(batch)
        code = error.code if isinstance(error, Refused) else None
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._note_acked(batch)
            batch.succeed(None, None)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.divisible and not batch.settled:
            self._split(batch)
        elif code in _LOST_TRACK and self.idempotent:
            self._lost_track(batch, error)
        elif batch.settled or not _may_retry(code):
            self._give_up(batch, error)
        else:
            self.retry_at_ms = now_ms + backoff_ms
            self._put_back(batch)
        self._settle_gap()

    def expire(self, now_ms: int) -> list[PendingBatch]:
        """Gives up what has not been delivered by its deadline; returns those that left the
        queue.
        """
        for batch in self.on_wire:
            # Its answer is still to come, and tells whether there is a gap: only its sender stops
            # waiting.
            if batch.deadline_ms <= now_ms:
                self._fail(batch, _too_late(batch))
        late = [batch for batch in self.waiting if batch.deadline_ms <= now_ms]
        for batch in late:
            self.waiting.remove(batch)
            self._give_up(batch, _too_late(batch))
        self._settle_gap()
        return late

    def abandon(self, error: ClientError) -> list[PendingBatch]:
        """Fails everything: the producer was closed or can't go on."""
        left = list(self.unsettled())
        for batch in left:
            batch.fail(error)
        self.waiting.clear()
        self.on_wire.clear()
        return left

    def _lost_track(self, batch: PendingBatch, error: ClientError) -> None:
        if self._is_oldest(batch) and not self.gap:
            # All before it was acked, and yet the broker does not know of it: acked data was lost
            # there.
            self._give_up(batch, error)
        elif self._is_overtaken(batch):
            # Numbered again, it would be written behind the later one.
            self._give_up(batch, error)
        else:
            # A batch before it failed. Once that one is settled this one is sent again, or
            # numbered again.
            self.number_again = self.number_again or self._is_oldest(batch)
            self._put_back(batch)

    def begin_epoch(self, epoch: int) -> None:
        """Numbers what comes from 0 in this epoch; nothing has a number in another one now."""
        assert epoch <= EPOCH_MAX, epoch
        assert not self.on_wire
        assert all(batch.sequence is None for batch in self.waiting)
        self.epoch = epoch
        self.acked_sequence = None
        self.next_sequence = 0
        self.gap = False
        self.number_again = False
        self.out_of_epochs = False

    def _note_acked(self, batch: PendingBatch) -> None:
        latest = self.acked_sequence
        if batch.sequence is not None and (latest is None or is_later(batch.sequence, than=latest)):
            self.acked_sequence = batch.sequence

    def _is_overtaken(self, batch: PendingBatch) -> bool:
        """Whether a later batch of its epoch was acked: a broker that had lost what it knew of the
        producer accepted that one first.
        """
        assert batch.sequence is not None
        latest = self.acked_sequence
        return latest is not None and is_later(latest, than=batch.sequence)

    def _fail(self, batch: PendingBatch, error: ClientError) -> None:
        batch.fail(error)
        self.given_up = self.given_up or error

    def _give_up(self, batch: PendingBatch, error: ClientError) -> None:
        self._fail(batch, error)
        if batch.sequence is not None:
            self.gap = True

    def _put_back(self, batch: PendingBatch) -> None:
        """Before the first waiting batch that was numbered later or never."""
        place = 0
        while place < len(self.waiting) and _is_before(self.waiting[place], batch):
            place += 1
        self.waiting.insert(place, batch)

    def _split(self, batch: PendingBatch) -> None:
        first, second = batch.split()
        if batch.sequence is not None:
            first.epoch = second.epoch = batch.epoch
            first.sequence = batch.sequence
            second.sequence = advance(batch.sequence, by=first.record_count)
        # One attempt is on record, so that each is sent alone, in order, as anything sent again.
        first.attempts = second.attempts = 1
        # The second one first: a batch without a number is put before all that wait.
        self._put_back(second)
        self._put_back(first)

    def _is_oldest(self, batch: PendingBatch) -> bool:
        return not any(
            other is not batch and other.sequence is not None and _is_before(other, batch)
            for other in self.unsettled()
        )

    def _settle_gap(self) -> None:
        """Ends the gap, once nothing is on the wire, if nothing numbered is left or none of that
        was written.
        """
        if not self.gap or self.on_wire:
            return
        if self.number_again:
            for batch in self.waiting:
                batch.sequence = None
                batch.attempts = 0
        if any(batch.sequence is not None for batch in self.waiting):
            return
        if self.epoch < EPOCH_MAX:
            self.begin_epoch(self.epoch + 1)
        else:
            self.gap = self.number_again = False
            self.out_of_epochs = True


def _is_before(one: PendingBatch, other: PendingBatch) -> bool:
    """Whether `one` was numbered before `other`, over the wrap of sequence numbers."""
    if one.sequence is None:
        return False
    assert other.sequence is not None
    return (other.sequence - one.sequence) & (2**31 - 1) < 2**30


def _may_retry(code: ErrorCode | None) -> bool:
    """No code: the connection was lost or the answer did not come, so nobody knows whether it was
    written.
    """
    return code is None or code in RETRIABLE


def _too_late(batch: PendingBatch) -> TimedOut:
    waited_ms = batch.deadline_ms - batch.created_ms
    return TimedOut(
        f"{batch.partition}: {batch.record_count} records were not delivered within {waited_ms} ms"
        f" ({batch.attempts} attempts)"
    )
