"""Producer ids, handed to brokers in blocks, each id once in the life of the cluster."""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import PRODUCER_ID_BLOCK
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord


def allocate_producer_ids(
    context: DecisionContext, request: AllocateProducerIdsRequest
) -> Decision[MetadataRecord, AllocateProducerIdsResponse]:
    """The next block, for the broker alone."""
    broker = context.state.brokers.get(NodeId(request.broker_id))
    if broker is None or broker.epoch != request.broker_epoch:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    first = context.state.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK,
    )
    block = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK)
    return Decision(records=(record,), reply=block)
