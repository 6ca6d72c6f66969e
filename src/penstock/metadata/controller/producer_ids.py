"""Producer ids, handed to brokers in blocks, each id once in the life of the cluster."""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import PRODUCER_ID_BLOCK
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """A broker asks for its next block."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """The ids from `first` up to, and without, `first + count`."""

    first: ProducerId
    count: int


def allocate_producer_ids(
    context: DecisionContext, request: AllocateProducerIds
) -> Decision[MetadataRecord, ProducerIdBlock]:
    broker = context.state.brokers.get(request.node_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    first = ProducerId(context.state.next_producer_id)
    record = ProducerIdsRecord(
        broker_id=request.node_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK,
    )
    return Decision(records=(record,), reply=ProducerIdBlock(first=first, count=PRODUCER_ID_BLOCK))
