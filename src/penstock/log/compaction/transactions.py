"""The transactions that compaction meets when it walks a log from its start or a later segment.

Records of aborted transactions are removed, whatever their keys. A marker may be removed once no
record of its transaction is left; until then readers need it.
"""

from collections.abc import Sequence

from penstock.log.aborted_index import AbortedTransaction
from penstock.model.identity import ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.records.batch import BatchView
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of


@dataclass(slots=True)
class _Aborted:
    transaction: AbortedTransaction
    met: bool = False  # some batch of it was still there


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """What to do with a control batch."""

    useless: bool  # nothing of its transaction is left
    aborted: AbortedTransaction | None = None  # what readers must still be told of


class Transactions:
    """The transactions that are open at one point of the walk. It must be given every batch, in
    order.
    """

    __slots__ = ("_aborted", "_committed", "_waiting")

    def __init__(self, aborted: Sequence[AbortedTransaction], *, from_offset: Offset) -> None:
        """`from_offset`: where the walk begins. Markers below it are not seen: the transactions
        that they ended must not count as open, or later commits of the producer would count as
        aborted.
        """
        met = [one for one in aborted if one.last_offset >= from_offset]
        self._waiting = sorted(met, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[ProducerId, _Aborted] = {}
        self._committed: set[ProducerId] = set()

    def pass_data(self, batch: BatchView) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        self._begin_until(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        aborted.met = True
        return True

    def pass_control(self, batch: BatchView) -> Marker:
        self._begin_until(batch.last_offset)
        record = next(records_of(batch), None)
        if record is None:
            return Marker(useless=True)  # emptied by an earlier pass
        kind = control_type(record)
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(batch.producer_id, None)
            if aborted is not None and aborted.met:
                return Marker(useless=False, aborted=aborted.transaction)
            return Marker(useless=True)
        if kind is ControlType.COMMIT:
            met = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return Marker(useless=not met)
        return Marker(useless=False)

    def _begin_until(self, offset: Offset) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            transaction = self._waiting.pop()
            self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))
