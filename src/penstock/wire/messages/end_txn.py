"""EndTxn: a producer commits or aborts its transaction.

From version 5 on the producer's epoch grows with every transaction, so the reply tells the identity
that the next one is to use (KIP-890).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=ApiKey.END_TXN, versions="0-5", flexible_from=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=ApiKey.END_TXN, versions="0-5", flexible_from=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
