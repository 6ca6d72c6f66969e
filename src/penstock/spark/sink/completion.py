"""Completion of a decision: its transactions are committed, and it is marked as done. Pure: see
`actions`; the invariants are in `flows`.

Whoever finds a decision that is not done may complete it: the driver that decided, the next run of
the query, or an operator.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.client.produce.prepared_transaction import Ending
from penstock.spark.sink.actions import (
    Commit,
    Fence,
    FindEnding,
    Look,
    ReadLast,
    Reclaim,
    Reclaimed,
    Seen,
)
from penstock.spark.sink.decision import Decided, Prepared, SinkRecord
from penstock.spark.sink.errors import Contended, LostTransaction
from penstock.spark.sink.record_change import Driver, Flow, superseded, write_record

RECLAIMS_MAX = 5


def finish(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    """Commits what is decided. A run that is superseded meanwhile leaves the rest to the next."""
    decided = record.unfinished
    if decided is None:
        return record
    lost = yield from commit_all(driver, decided)
    if lost:
        raise lost_of(driver.sink, decided, lost)
    return (yield from mark_done(driver, record))


def commit_all(driver: Driver, decided: Decided | None) -> Flow[tuple[Prepared, ...]]:
    """Commits what can be; what cannot, as it has been aborted or is not to be found."""
    lost = []
    if decided is not None:
        as_decided = replace(driver, two_phase=decided.two_phase)
        beside = decided.transactions[1:]
        for transaction in decided.transactions:
            if not (yield from _commit(as_decided, transaction, beside)):
                lost.append(transaction)
            beside = ()
    return tuple(lost)


def recover(driver: Driver) -> Flow[int]:
    """In place of a driver that has died: commits what it decided; how many transactions. While
    one lives, nothing is lost by it either.
    """
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    decided = None if last is None else last.unfinished
    if last is None or decided is None:
        return 0
    yield from finish(replace(driver, claim=last.claim), last)
    return len(decided.transactions)


def mark_done(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    def done(last: SinkRecord | None) -> SinkRecord | None:
        if last is None or last.claim != driver.claim:
            raise superseded(driver, last)
        # Another process of this run may have completed it too, and gone on.
        return replace(last, is_done=True) if last.decided == record.decided else None

    return (yield from write_record(done))


def _commit(driver: Driver, decided: Prepared, beside: tuple[Prepared, ...] = ()) -> Flow[bool]:
    """False: it is lost. Whoever took the id over since has bumped its epoch: then the decision is
    carried out by the new identity, if the transaction is still the one that was decided.

    Else only the partitions know. What the coordinator says of the id (empty, unknown, committed,
    aborted, or open again) may be of something that came after it.
    """
    held = decided
    ending = Ending.OPEN
    for _ in range(RECLAIMS_MAX):
        committed: bool = yield Commit(held, beside)
        beside = ()
        if committed:
            return True
        seen: Seen = yield Look(decided.transactional_id)
        if seen is Seen.OPEN and driver.two_phase:
            reclaimed: Reclaimed | None = yield Reclaim(decided.transactional_id)
            if reclaimed is not None and reclaimed.written_by == decided:
                held = reclaimed.held_by
                continue
        ending = yield FindEnding(decided)
        if ending is not Ending.OPEN:
            return ending is Ending.COMMITTED
    if held != decided:
        raise Contended(
            f"transaction {decided.transactional_id} was taken over by other producers"
            f" {RECLAIMS_MAX} times"
        )
    return False  # it hangs in its partition, and no coordinator knows of it


def lost_of(sink: str, decided: Decided, lost: Sequence[Prepared]) -> LostTransaction:
    names = ", ".join(one.transactional_id for one in lost)
    return LostTransaction(
        f"sink {sink}: batch {decided.batch_id} of query {decided.query_id} was decided, and"
        f" {len(lost)} of its {len(decided.transactions)} transactions are not committed, so their"
        f" rows are lost: {names}; they were aborted, or their records are missing in the topic;"
        " check the topic before you write the rows again; penstock transactions abort --sink"
        " lets the sink continue without them"
    )
