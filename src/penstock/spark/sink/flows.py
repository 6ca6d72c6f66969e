"""The protocol of the exactly-once sink, as it runs on the driver. Pure: see `actions`.

Tasks write, each attempt in a transaction of its own, and leave it open. The batch is written when
the driver has recorded which of them are it; that they are committed after that is only completion,
and anyone who comes later may do it.

    claim    fence, read, claim; complete what is decided; abort what is not and of other runs
    decide   fence, read, decide, unless superseded; commit; done; abort the rest
    give_up  fence, read; abort what of this run is not decided

Invariants, whatever crashes between two actions:
 1. A transaction is committed only if a decision names it, as it was when it was decided.
 2. A batch of a query is decided at most once; after a later one, never.
 3. Whoever is not the last to have claimed decides nothing, and ends nothing but what its own run
    left undecided.
 4. DONE is written when every transaction of the decision is committed.

Of 3: which runs are older is known only by the claims. A list of open transactions is therefore
made before the claim is looked at again: a run that claims afterwards is not on it.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from penstock.spark.sink.actions import (
    Abort,
    Action,
    Commit,
    Fence,
    ListOpen,
    Look,
    ReadLast,
    Reclaim,
    Reclaimed,
    Seen,
    Write,
    WriteOutcome,
)
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord
from penstock.spark.sink.names import attempt_of, prefix_of
from penstock.spark.sink.trouble import (
    Contended,
    LostTransaction,
    MissingBatch,
    OlderBatch,
    Superseded,
)

T = TypeVar("T")
Flow = Generator[Action, Any, T]

WRITES_MAX = 10
RECLAIMS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who runs a flow. `two_phase`: prepared transactions never time out, and ids come again."""

    sink: str
    claim: Claim
    two_phase: bool


def claim(driver: Driver) -> Flow[SinkRecord]:
    """Before the first batch of a run; what it returns tells which batch was decided last."""

    def claimed(last: SinkRecord | None) -> SinkRecord:
        if last is None:
            return SinkRecord(claim=driver.claim)
        return replace(last, claim=driver.claim)

    record = yield from _write(claimed)
    record = yield from _finish(driver, record)
    yield from _clear(driver)
    return record


def decide(driver: Driver, batch_id: int, prepared: Sequence[Prepared]) -> Flow[SinkRecord]:
    """When every task of a batch has written."""
    batch = Decided(query_id=driver.claim.query_id, batch_id=batch_id, transactions=tuple(prepared))
    record = yield from _write(lambda last: _decision(driver, last, batch))
    record = yield from _finish(driver, record)
    yield from _clear(driver)
    return record


def give_up(driver: Driver) -> Flow[None]:
    """When a batch failed, or nobody knows how it ended."""
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    unfinished = None if last is None else last.unfinished
    for transactional_id in (yield from _open(driver)):
        of_this_run = _run_of(transactional_id) == driver.claim.run_id
        if of_this_run and not (unfinished and unfinished.names(transactional_id)):
            yield Abort(transactional_id)


def _decision(driver: Driver, last: SinkRecord | None, batch: Decided) -> SinkRecord | None:
    """What is written for a batch; None: it is decided already."""
    if last is None or last.claim != driver.claim:
        raise _superseded(driver, last)
    before = last.decided
    if before is not None and before.query_id == batch.query_id:
        if batch.batch_id == before.batch_id:
            return None
        if batch.batch_id < before.batch_id:
            raise OlderBatch(
                f"sink {driver.sink}: batch {batch.batch_id} of query {batch.query_id} comes too "
                f"late, {before.batch_id} is decided: its checkpoint is an old one"
            )
        if batch.batch_id > before.batch_id + 1:
            raise MissingBatch(
                f"sink {driver.sink}: batch {batch.batch_id} of query {batch.query_id} cannot be "
                f"next, {before.batch_id} is the last decided: decisions are missing"
            )
    assert last.is_done, "a claim completes what it finds, and so does every decision"
    return SinkRecord(claim=driver.claim, decided=batch, is_done=False)


def _write(change: Callable[[SinkRecord | None], SinkRecord | None]) -> Flow[SinkRecord]:
    """Changes the sink's record; what it is then. `change` is given the last one, and says None
    where there is nothing to write.
    """
    for _ in range(WRITES_MAX):
        yield Fence()
        last: SinkRecord | None = yield ReadLast()
        record = change(last)
        if record is None or record == last:
            assert last is not None
            return last
        outcome: WriteOutcome = yield Write(record)
        if outcome is WriteOutcome.WRITTEN:
            return record
    raise Contended(f"the decision could not be written in {WRITES_MAX} attempts")


def _finish(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    """Commits what is decided. A run that is superseded meanwhile leaves the rest to the next."""
    decided = record.unfinished
    if decided is None:
        return record
    for transaction in decided.transactions:
        yield from _commit(driver, transaction)

    def done(last: SinkRecord | None) -> SinkRecord:
        if last is None or last.claim != driver.claim:
            raise _superseded(driver, last)
        assert last.decided == decided, "only this run decides"
        return replace(last, is_done=True)

    return (yield from _write(done))


def _commit(driver: Driver, decided: Prepared) -> Flow[None]:
    """Whoever took the id over since has bumped its epoch: then the decision is carried out by the
    new identity, if the transaction is still the one that was decided.
    """
    held = decided
    for _ in range(RECLAIMS_MAX):
        committed: bool = yield Commit(held)
        if committed:
            return
        seen: Seen = yield Look(decided.transactional_id)
        if seen is Seen.OPEN and driver.two_phase:
            reclaimed: Reclaimed | None = yield Reclaim(decided.transactional_id)
            if reclaimed is not None and reclaimed.written_by == decided:
                held = reclaimed.held_by
                continue
        # Nothing but its commit ends a two-phase transaction without leaving ABORTED: no time-out
        # does, and a task ends none. So where the id went on to something else, it is committed.
        if seen is Seen.COMMITTED or (driver.two_phase and seen is not Seen.ABORTED):
            return
        raise LostTransaction(
            f"sink {driver.sink}: transaction {decided.transactional_id} was decided and has been "
            "aborted since: its rows are lost"
        )
    raise Contended(f"transaction {decided.transactional_id} is taken over again and again")


def _clear(driver: Driver) -> Flow[None]:
    """Aborts what was left open, of this run and of older ones; all that is decided is done."""
    left = yield from _open(driver)
    last: SinkRecord | None = yield ReadLast()
    if last is None or last.claim != driver.claim:
        raise _superseded(driver, last)
    for transactional_id in left:
        yield Abort(transactional_id)


def _open(driver: Driver) -> Flow[list[str]]:
    """The transactions of the sink that are open, whichever run's."""
    listed: tuple[str, ...] = yield ListOpen(prefix_of(driver.sink))
    return [one for one in listed if _sink_of(one) == driver.sink]


def _sink_of(transactional_id: str) -> str | None:
    attempt = attempt_of(transactional_id)
    return None if attempt is None else attempt.sink


def _run_of(transactional_id: str) -> str | None:
    attempt = attempt_of(transactional_id)
    return None if attempt is None else attempt.run_id


def _superseded(driver: Driver, last: SinkRecord | None) -> Superseded:
    if last is None:
        return Superseded(f"sink {driver.sink}: its claim is gone from the decision topic")
    return Superseded(
        f"sink {driver.sink}: run {last.claim.run_id} of query {last.claim.query_id} has claimed "
        f"it since run {driver.claim.run_id} did"
    )
