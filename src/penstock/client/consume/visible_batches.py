"""Which batches of a fetch reply its reader sees.

Markers of transactions are never seen, and with `read_committed` neither are the records of
transactions that were aborted. A reply tells those that began before its end; each holds from its
first offset to the marker that ends it.
"""

from collections.abc import Sequence
from heapq import heapify, heappop

from penstock.model.identity import ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """A transaction that came to nothing: the producer's records from here to its abort marker."""

    producer_id: ProducerId
    first_offset: Offset


class VisibleBatches:
    """Asked for every batch of one reply, in their order."""

    def __init__(self, *, read_committed: bool, aborted: Sequence[Aborted] = ()) -> None:
        self._read_committed = read_committed
        self._starting = [(a.first_offset, a.producer_id) for a in aborted]
        heapify(self._starting)
        self._aborting: set[ProducerId] = set()

    def shows(self, batch: BatchView) -> bool:
        if not self._read_committed:
            return not batch.is_control
        # Before a marker too: a fetch may begin at the very marker that ends one of these.
        while self._starting and self._starting[0][0] <= batch.last_offset:
            self._aborting.add(heappop(self._starting)[1])
        if batch.is_control:
            self._note_marker(batch)
            return False
        return not batch.is_transactional or batch.producer_id not in self._aborting

    def _note_marker(self, batch: BatchView) -> None:
        for record in records_of(batch):
            if control_type(record) is ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
