"""ListTransactions: the transactional ids of a coordinator (KIP-664), filtered.

By state and producer, from version 1 on by duration (KIP-994), from 2 on by a pattern (KIP-1152).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, int64, nullable, string


class ListTransactionsRequest(
    Message, key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible_from=0
):
    state_filters: list[str] = array(string())
    producer_id_filters: list[int] = array(int64())
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = nullable(string("2+"), "2+", default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(
    Message, key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string())
    transaction_states: list[TransactionState] = array(TransactionState)
