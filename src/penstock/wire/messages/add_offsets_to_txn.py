"""AddOffsetsToTxn: the group whose offsets a transaction is about to commit."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(
    Message, key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible_from=3
):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(
    Message, key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible_from=3
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
