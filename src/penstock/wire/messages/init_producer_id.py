"""InitProducerId: an identity for an idempotent or transactional producer.

Version 6 adds two-phase commit (KIP-939).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, boolean, int16, int32, int64, nullable, string


class InitProducerIdRequest(Message, key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible_from=2):
    transactional_id: str | None = nullable(string())
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, key=ApiKey.INIT_PRODUCER_ID, versions="0-6", flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
