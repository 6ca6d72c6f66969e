"""The transactions that this broker coordinates. What its logs know of them is in `replicas`."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from penstock.metrics.family import Source, Steps, gauge
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import NEVER_STORED, TransactionState
from penstock.world.ports import Clock

IDS = gauge(
    "penstock_transactional_ids",
    "Transactional ids that this broker coordinates, by the state of their transaction.",
    "state",
)
OPEN = gauge(
    "penstock_transactions_open",
    "Transactions that have begun and are not complete, of those that this broker coordinates.",
)
OLDEST = gauge(
    "penstock_transaction_age_seconds_max",
    "How long ago the oldest open transaction began, of those that this broker coordinates.",
)
STORED = tuple(state for state in TransactionState if state not in NEVER_STORED)


class Transactions(Protocol):
    @property
    def shards(self) -> Iterable[TransactionShard]: ...


def transaction_metrics(transactions: Transactions, clock: Clock) -> Source:
    def samples() -> Steps:
        now_ms = clock.now_ms()
        states: Counter[TransactionState] = Counter()
        open_count = 0
        oldest_ms = now_ms
        for shard in list(transactions.shards):
            for transaction in list(shard.transactions.values()):
                states[transaction.state] += 1
                if transaction.is_open:
                    open_count += 1
                    if transaction.start_ms is not None:
                        oldest_ms = min(oldest_ms, transaction.start_ms)
                yield None
        for state in STORED:
            yield IDS.sample(states[state], state.word)
        yield OPEN.sample(open_count)
        yield OLDEST.sample((now_ms - oldest_ms) / 1000)

    return Source((IDS, OPEN, OLDEST), samples)
