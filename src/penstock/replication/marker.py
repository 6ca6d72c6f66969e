"""The rules by which a partition accepts the marker that ends a producer's transaction.

A marker may be sent twice: the coordinator may not have received the first reply. The second marker
then ends nothing, and is written nevertheless.
"""

from penstock.log.producer_state import NO_COORDINATOR_EPOCH, ProducerState
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.replication.leader import Refusal

EPOCH_PER_TRANSACTION = 2  # the transaction version whose markers carry a new epoch each


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """How a producer's transaction ended."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0


def refuse_marker(marker: Marker, producer: ProducerState | None) -> Refusal | None:
    """Why a marker is not written: its producer id or epoch is invalid, or an epoch is too old."""
    epoch = marker.producer_epoch
    if marker.producer_id < 0 or epoch < 0:
        return Refusal(
            code=ErrorCode.INVALID_REQUEST,
            message=f"invalid producer id {marker.producer_id} or epoch {epoch}",
        )
    if producer is not None and _is_late(marker, producer):
        return Refusal(
            code=ErrorCode.INVALID_PRODUCER_EPOCH,
            message=f"producer {marker.producer_id} has epoch {producer.epoch}, the marker {epoch}",
        )
    known = NO_COORDINATOR_EPOCH if producer is None else producer.coordinator_epoch
    if marker.coordinator_epoch < known:
        return Refusal(
            code=ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            message=(
                f"the marker has coordinator epoch {marker.coordinator_epoch}, "
                f"a marker of epoch {known} was written already"
            ),
        )
    return None


def _is_late(marker: Marker, producer: ProducerState) -> bool:
    epoch = marker.producer_epoch
    if marker.transaction_version >= EPOCH_PER_TRANSACTION and epoch == producer.epoch:
        return producer.current_txn_first_offset is not None
    return epoch < producer.epoch
