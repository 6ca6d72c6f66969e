"""AllocateProducerIds: a broker gets a block of producer ids for itself alone (KIP-730)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, int64


class AllocateProducerIdsRequest(
    Message, key=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible_from=0
):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(
    Message, key=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
