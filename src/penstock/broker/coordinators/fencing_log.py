"""Logs fenced producers, those that took over from them, and transactions that were aborted."""

import logging

from penstock.model.events import PRODUCER_FENCED, PRODUCER_TOOK_OVER, TRANSACTION_ABORTED
from penstock.transactions.enlist import Enlist
from penstock.transactions.fencing import (
    Aborted,
    Fenced,
    TookOver,
    Trigger,
    explained,
    transactional_id_of,
)
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Transaction
from penstock.transactions.timers import TransactionEnds
from penstock.wire.header import RequestHeader
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.world.event_log import tell
from penstock.world.ports import Address

logger = logging.getLogger(__name__)


class Client:
    """Where a request came from."""

    __slots__ = ("client_id", "correlation_id", "host")

    def __init__(self, header: RequestHeader, peer: Address) -> None:
        self.client_id = header.client_id
        self.correlation_id = header.correlation_id
        self.host = peer.host


class WatchedTransaction:
    """One transactional id while a decision is made about it."""

    __slots__ = ("_before", "_client", "_shard", "_trigger", "reply")

    def __init__(self, shard: TransactionShard, trigger: Trigger, client: Client | None) -> None:
        self._shard = shard
        self._trigger = trigger
        self._client = client
        self._before: Transaction | None = shard.transactions.get(transactional_id_of(trigger))
        self.reply: object = None  # as it was decided

    def log(self) -> None:
        """The decision is applied, or could not be stored."""
        after = self._shard.transactions.get(transactional_id_of(self._trigger))
        client = self._client
        for found in explained(self._before, after, self._trigger, self.reply):
            match found:
                case TookOver():
                    tell(
                        logger,
                        PRODUCER_TOOK_OVER,
                        transactional_id=found.transactional_id,
                        producer_id=found.gained.producer_id,
                        epoch=found.gained.epoch,
                        old_producer_id=found.held.producer_id,
                        old_epoch=found.held.epoch,
                        client_id=None if client is None else client.client_id,
                        client_host=None if client is None else client.host,
                        correlation_id=None if client is None else client.correlation_id,
                    )
                case Aborted():
                    tell(
                        logger,
                        TRANSACTION_ABORTED,
                        transactional_id=found.transactional_id,
                        producer_id=found.producer.producer_id,
                        epoch=found.producer.epoch,
                        reason=found.because.value,
                        open_ms=found.open_ms,
                        timeout_ms=found.timeout_ms,
                    )
                case Fenced():
                    current = found.current
                    tell(
                        logger,
                        PRODUCER_FENCED,
                        transactional_id=found.transactional_id,
                        producer_id=found.producer.producer_id,
                        epoch=found.producer.epoch,
                        current_producer_id=None if current is None else current.producer_id,
                        current_epoch=None if current is None else current.epoch,
                        api=found.api,
                        error=found.error.name,
                        client_id=None if client is None else client.client_id,
                        client_host=None if client is None else client.host,
                        correlation_id=None if client is None else client.correlation_id,
                    )


def watched(
    shard: TransactionShard, request: object, client: Client | None
) -> WatchedTransaction | None:
    """None where nothing is to be logged."""
    if isinstance(request, InitProducerIdRequest | EndTxnRequest | Enlist) and logger.isEnabledFor(
        logging.WARNING
    ):
        return WatchedTransaction(shard, request, client)
    return None


def watched_due(shard: TransactionShard, now_ms: int) -> WatchedTransaction | None:
    """The same for a transaction whose time is up."""
    key = shard.deadlines.due(now_ms) if logger.isEnabledFor(logging.WARNING) else None
    return WatchedTransaction(shard, key, None) if isinstance(key, TransactionEnds) else None
