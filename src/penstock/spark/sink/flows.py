"""The protocol of the exactly-once sink. Pure: see `actions`.

Tasks write, each attempt in a transaction of its own, and leave it open. The batch is written when
the driver has recorded which of them are it; that they are committed after that is only completion,
and anyone who comes later may do it.

    plan        on the driver, before the tasks of a batch: read
    claim       in a task of a run's first batch: fence, read, claim; complete what is decided;
                abort what is not and of other runs
    may_write   in the other tasks of that batch: read, until it is claimed
    is_late     in each task that has written: whether that was decided without it
    decide      on the driver: fence, read, decide, unless superseded; commit; done; abort the rest
    give_up     on the driver: fence, read; abort what of this run is not decided
    write_once  on the driver, for a write that is no query's: decide, commit, take the record away
    recover     anywhere: complete what is decided
    take_away   by an operator: claim, and by that end everything

Invariants, whatever crashes between two actions:
 1. A transaction is committed only if a decision names it, as it was when it was decided.
 2. A batch of a query is decided at most once; after a later one, never.
 3. Whoever is not the last to have claimed decides nothing, and ends nothing but what its own run
    left undecided.
 4. DONE is written when every transaction of the decision is committed.

Of 3: which runs are older is known only by the claims. A list of open transactions is therefore
made before the claim is looked at again: a run that claims afterwards is not on it, since no task
writes before its run has claimed.
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
from penstock.spark.sink.names import attempt_of, decider_id, prefix_of
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


def plan() -> Flow[SinkRecord | None]:
    """Before each batch; what was found is handed to its tasks."""
    found: SinkRecord | None = yield ReadLast()
    return found


def must_claim(claim: Claim, planned: SinkRecord | None) -> bool:
    """Whether a run has still to claim, by what was found when its batch was planned."""
    return planned is None or planned.claim != claim


def is_decided(claim: Claim, batch_id: int, planned: SinkRecord | None) -> bool:
    """Whether there is nothing to be written for a batch."""
    decided = None if planned is None else planned.decided
    return decided is not None and (decided.query_id, decided.batch_id) == (
        claim.query_id,
        batch_id,
    )


def may_write(driver: Driver, planned: SinkRecord | None) -> Flow[bool]:
    """Whether somebody has claimed for this run by now."""
    last: SinkRecord | None = yield ReadLast()
    if last is None:
        return False
    if last.claim != driver.claim and _is_newer(driver, last, planned):
        raise _superseded(driver, last)
    return last.claim == driver.claim


def claim(driver: Driver, batch_id: int, planned: SinkRecord | None) -> Flow[SinkRecord]:
    """Before a run's first batch is decided. Whoever has claimed since it was planned is newer, and
    so is whoever superseded this run before; and so is who has decided a later batch.
    """

    def claimed(last: SinkRecord | None) -> SinkRecord:
        if last is None:
            return SinkRecord(claim=driver.claim)
        if last.claim == driver.claim:
            return last
        if _is_newer(driver, last, planned):
            raise _superseded(driver, last)
        _is_next(driver, last, batch_id)
        return last.claimed_by(driver.claim)

    record = yield from _write(claimed)
    record = yield from _finish(driver, record)
    yield from _clear(driver, own=False)
    return record


def is_late(driver: Driver, batch_id: int) -> Flow[bool]:
    """After a task has written and before it tells: whether nobody is going to ask for it. Then
    nobody might be there any more to abort it, and the task does that itself.
    """
    last: SinkRecord | None = yield ReadLast()
    return (
        last is None
        or last.claim != driver.claim
        or is_decided(driver.claim, batch_id, planned=last)
    )


def is_late_for_write(driver: Driver) -> Flow[bool]:
    """The same where the record goes when all is done: who decides does it once."""
    seen: Seen = yield Look(decider_id(driver.sink))
    return seen is not Seen.NONE


def decide(driver: Driver, batch_id: int, prepared: Sequence[Prepared]) -> Flow[SinkRecord]:
    """When every task of a batch has written."""
    batch = Decided(query_id=driver.claim.query_id, batch_id=batch_id, transactions=tuple(prepared))
    record = yield from _write(lambda last: _decision(driver, last, batch))
    record = yield from _finish(driver, record)
    yield from _clear(driver, own=True)
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


def write_once(driver: Driver, prepared: Sequence[Prepared]) -> Flow[None]:
    """When every task of a write has written. Nobody else has its sink's name; whoever recovers
    may be quicker to complete it, and then the record is gone.
    """
    decided = Decided(query_id=driver.claim.query_id, batch_id=0, transactions=tuple(prepared))
    record = SinkRecord(claim=driver.claim, decided=decided, is_done=False, once=True)

    def decision(last: SinkRecord | None) -> SinkRecord:
        if last is not None and last.claim != driver.claim:
            raise _superseded(driver, last)
        return record

    yield from _write(decision)
    yield from _complete(driver, record)


def take_away(driver: Driver) -> Flow[None]:
    """By an operator, who has given a query up: what is decided is completed, what is not is
    aborted; a run that still lives is superseded by it, and decides nothing any more.
    """
    last: SinkRecord | None = yield ReadLast()
    yield from claim(driver, 0, last)


def recover(driver: Driver) -> Flow[int]:
    """In place of a driver that has died: commits what it decided; how many transactions. While
    one lives, nothing is lost by it either.
    """
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    decided = None if last is None else last.unfinished
    if last is None or decided is None:
        return 0
    in_place = replace(driver, claim=last.claim)
    if last.once:
        yield from _complete(in_place, last)
    else:
        yield from _finish(in_place, last)
    return len(decided.transactions)


def _complete(driver: Driver, record: SinkRecord) -> Flow[None]:
    """Of a single write: without its record it is done."""
    assert record.once
    assert record.unfinished is not None
    for transaction in record.unfinished.transactions:
        yield from _commit(driver, transaction)
    for transactional_id in (yield from _open(driver)):
        yield Abort(transactional_id)
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    if last == record:
        # Where this is lost, somebody recovers what is complete, which does no harm.
        yield Write(None)


def _decision(driver: Driver, last: SinkRecord | None, batch: Decided) -> SinkRecord | None:
    """What is written for a batch; None: it is decided already."""
    if last is None or last.claim != driver.claim:
        raise _superseded(driver, last)
    if not _is_next(driver, last, batch.batch_id):
        return None
    assert last.is_done, "a claim completes what it finds, and so does every decision"
    return replace(last, decided=batch, is_done=False)


def _is_newer(driver: Driver, last: SinkRecord, planned: SinkRecord | None) -> bool:
    """Whether another run, which holds the sink, came after this one."""
    seen = None if planned is None else planned.claim
    return last.claim != seen or driver.claim.run_id in last.former


def _is_next(driver: Driver, last: SinkRecord, batch_id: int) -> bool:
    """False: the batch is decided already. Another query's decisions say nothing of it."""
    before, query_id = last.decided, driver.claim.query_id
    if before is None or before.query_id != query_id:
        return True
    if batch_id < before.batch_id:
        raise OlderBatch(
            f"sink {driver.sink}: batch {batch_id} of query {query_id} comes too late,"
            f" {before.batch_id} is decided: its checkpoint is an old one"
        )
    if batch_id > before.batch_id + 1:
        raise MissingBatch(
            f"sink {driver.sink}: batch {batch_id} of query {query_id} cannot be next,"
            f" {before.batch_id} is the last decided: decisions are missing"
        )
    return batch_id != before.batch_id


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

    def done(last: SinkRecord | None) -> SinkRecord | None:
        if last is None or last.claim != driver.claim:
            raise _superseded(driver, last)
        # Another process of this run may have completed it too, and gone on.
        return replace(last, is_done=True) if last.decided == decided else None

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
        # does, and a task that ends its own leaves NONE. So where the id went on to something else,
        # it is committed.
        if seen is Seen.COMMITTED or (driver.two_phase and seen is not Seen.ABORTED):
            return
        raise LostTransaction(
            f"sink {driver.sink}: transaction {decided.transactional_id} was decided and has been "
            "aborted since: its rows are lost"
        )
    raise Contended(f"transaction {decided.transactional_id} is taken over again and again")


def _clear(driver: Driver, *, own: bool) -> Flow[None]:
    """Aborts what was left open, of older runs and of the `own` one; all that is decided is done.
    While tasks of the own run write, what they write is spared.
    """
    left = yield from _open(driver)
    last: SinkRecord | None = yield ReadLast()
    if last is None or last.claim != driver.claim:
        raise _superseded(driver, last)
    for transactional_id in left:
        if own or _run_of(transactional_id) != driver.claim.run_id:
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
