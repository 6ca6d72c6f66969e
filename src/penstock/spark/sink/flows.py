"""The protocol of the exactly-once sink. Pure: see `actions`.

Tasks write, each attempt in a transaction of its own, and leave it open. The batch is written when
the driver has recorded which of them are it; that they are committed after that is only completion,
and anyone who comes later may do it.

    plan        on the driver, before the tasks of a batch: read
    claim       in a task of a run's first batch: read, fence, read, claim; complete what is
                decided; abort what is not and of other runs
    may_write   in the other tasks of that batch: read, until it is claimed
    is_late     in each task that has written: whether that was decided, or given up, without it
    decide      on the driver: read, fence, read, decide, unless superseded; commit; done; abort
                the rest
    give_up     on the driver: record it; abort what of this run is not decided
    resume      on the driver, where a program writes a batch again that it has given up
    take_away   by an operator: claim, and by that end everything; done, when losses are told

`record_change` changes the record of a sink, `completion` carries out what is decided. A write that
is no query's is in `single_writes`, and what is done between batches and when a query has ended in
`run_end`.

Invariants, whatever crashes between two actions:
 1. A transaction is committed only if a decision names it, as it was when it was decided.
 2. A batch of a query is decided at most once; after a later one, never.
 3. Whoever is not the last to have claimed decides nothing, and ends nothing but what its own run
    left undecided.
 4. DONE is written when every transaction of the decision is committed, or is lost and an
    operator has been told.
 5. What a run has given up it does not decide; whatever its tasks write later they end themselves.

Of 5: a task looks at the record when it has written, and who gives up lists what is open when it
has recorded that. So one of them sees the other.

Of 3: which runs are older is known only by the claims. A list of open transactions is therefore
made before the claim is looked at again: a run that claims afterwards is not on it, since no task
writes before its run has claimed.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import assert_never

from penstock.spark.batch_identity import BatchPlace, place_of
from penstock.spark.sink.actions import (
    Abort,
    ListOpen,
    Look,
    ReadLast,
    Seen,
)
from penstock.spark.sink.completion import commit_all, finish
from penstock.spark.sink.decision import Claim, Decided, GivenUp, Prepared, SinkRecord
from penstock.spark.sink.errors import (
    BatchGivenUp,
    MissingBatch,
    OlderBatch,
    SecondWrite,
    Superseded,
    TransactionTimedOut,
    Unfinished,
)
from penstock.spark.sink.names import attempt_of, decider_id, prefix_of, run_of
from penstock.spark.sink.record_change import (
    Driver,
    Flow,
    change_record,
    superseded,
    write_record,
)


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
        raise superseded(driver, last)
    return last.claim == driver.claim


def claim(driver: Driver, batch_id: int, planned: SinkRecord | None) -> Flow[SinkRecord]:
    """Before a run's first batch is decided. Whoever has claimed since it was planned is newer, and
    so is whoever superseded this run before; and so is who has decided a later batch.
    """

    def claimed(last: SinkRecord | None) -> SinkRecord:
        if last is None:
            return SinkRecord(claim=driver.claim)
        if last.claim == driver.claim:
            _not_given_up(driver, last, batch_id)
            return last
        if _is_newer(driver, last, planned):
            raise superseded(driver, last)
        _is_next(driver, last, batch_id)
        return last.claimed_by(driver.claim)

    if planned is None:
        yield from _is_new(driver)
    record = yield from write_record(claimed)
    record = yield from finish(driver, record)
    yield from _clear(driver, own=False)
    return record


def _is_new(driver: Driver) -> Flow[None]:
    """Where a sink has no record: a decider that has written one knows better."""
    seen: Seen = yield Look(decider_id(driver.sink))
    last: SinkRecord | None = yield ReadLast()
    if last is None and seen is Seen.COMMITTED:
        raise MissingBatch(
            f"sink {driver.sink} has decided before, and its decisions are missing: the decision"
            " topic was deleted or replaced; give another sinkId to continue"
        )


def is_late(driver: Driver, batch_id: int) -> Flow[bool]:
    """After a task has written and before it tells: whether nobody is going to ask for it. Then
    nobody might be there any more to abort it, and the task does that itself.

    Of a run that was given up it also ends what others have left, that were killed before they
    could look. A program that calls writes (`gaps`) may have begun the batch anew meanwhile.
    """
    last: SinkRecord | None = yield ReadLast()
    if last is None or last.claim != driver.claim:
        return True
    if last.has_given_up(driver.claim, batch_id):
        if not driver.gaps:
            yield from abort_given_up(driver, last)
        return True
    decided = last.decided
    return (
        decided is not None
        and decided.query_id == driver.claim.query_id
        and decided.batch_id >= batch_id
    )


def decide(driver: Driver, batch_id: int, prepared: Sequence[Prepared]) -> Flow[SinkRecord]:
    """When every task of a batch has written."""
    batch = decision_of(driver, batch_id, prepared)
    record = yield from write_record(
        lambda last: _decision(driver, last, batch), before=lambda: look_at(driver, batch)
    )
    record = yield from finish(driver, record)
    yield from _clear(driver, own=True)
    return record


def give_up(driver: Driver, batch_id: int | None = None) -> Flow[None]:
    """When a batch failed, or nobody knows how it ended; None: whichever it was."""
    given_up = GivenUp(run_id=driver.claim.run_id, batch_id=batch_id)

    def without_it(last: SinkRecord | None) -> SinkRecord | None:
        if last is None or last.claim != driver.claim:
            return None
        if last.given_up == GivenUp(run_id=driver.claim.run_id, batch_id=None):
            return None  # the whole run is, and stays so
        return replace(last, given_up=given_up)

    last = yield from change_record(without_it)
    yield from abort_given_up(driver, last)


def resume(driver: Driver, batch_id: int) -> Flow[SinkRecord]:
    """Before a batch that was given up is written again, by the same run."""

    def resumed(last: SinkRecord | None) -> SinkRecord | None:
        if last is None or last.claim != driver.claim:
            raise superseded(driver, last)
        given_up = last.given_up
        if given_up is not None and given_up.batch_id is None:
            _not_given_up(driver, last, batch_id)
        return replace(last, given_up=None)

    return (yield from write_record(resumed))


def abort_given_up(driver: Driver, record: SinkRecord | None) -> Flow[None]:
    """Aborts what is open of a run that decides nothing more of it, by what its record says."""
    unfinished = None if record is None else record.unfinished
    for transactional_id in (yield from open_ids(driver)):
        of_this_run = run_of(transactional_id) == driver.claim.run_id
        if of_this_run and not (unfinished and unfinished.names(transactional_id)):
            yield Abort(transactional_id)


def take_away(
    driver: Driver, checked: Collection[str]
) -> Flow[tuple[SinkRecord, tuple[Prepared, ...]]]:
    """By an operator, who has given a query up: what is decided is completed, what is not is
    aborted; a run that still lives is superseded by it, and decides nothing any more. What was
    decided and is lost is passed over, and told along with the record, which is not done yet:
    `mark_done` is the last step. Until then an error, or another run that claims, leaves the loss
    to be told by whoever comes next.

    The record tells of the runs that decide in its topic. What any other run has open may be
    decided in another topic, and is aborted only if the operator has `checked` that it is not.
    """

    def claimed(last: SinkRecord | None) -> SinkRecord:
        if last is None:
            return SinkRecord(claim=driver.claim)
        return last if last.claim == driver.claim else last.claimed_by(driver.claim)

    record = yield from write_record(claimed)
    lost = yield from commit_all(driver, record.unfinished)
    known = record.run_ids
    for transactional_id in (yield from _left_open(driver)):
        if transactional_id in checked or run_of(transactional_id) in known:
            yield Abort(transactional_id)
    return record, lost


def decision_of(driver: Driver, batch_id: int, prepared: Sequence[Prepared]) -> Decided:
    return Decided(
        query_id=driver.claim.query_id,
        batch_id=batch_id,
        transactions=tuple(prepared),
        two_phase=driver.two_phase,
    )


def look_at(driver: Driver, batch: Decided) -> Flow[None]:
    """Before a batch is decided: what is aborted by now could never be committed."""
    if batch.two_phase:
        return
    beside = tuple(one.transactional_id for one in batch.transactions[1:])
    for one in batch.transactions:
        seen: Seen = yield Look(one.transactional_id, beside)
        beside = ()
        if seen not in (Seen.OPEN, Seen.COMMITTED):  # by whoever saw a decision that was in doubt
            last: SinkRecord | None = yield ReadLast()
            if last is not None and last.claim != driver.claim:
                raise superseded(driver, last)
            raise TransactionTimedOut(
                f"sink {driver.sink}: transaction {one.transactional_id} of batch {batch.batch_id}"
                f" of query {batch.query_id} has timed out: the batch is not decided, and can be"
                " repeated; raise kafka.transaction.timeout.ms, or make batches smaller"
            )


def _decision(driver: Driver, last: SinkRecord | None, batch: Decided) -> SinkRecord | None:
    """What is written for a batch; None: it is decided already."""
    if last is None or last.claim != driver.claim:
        raise superseded(driver, last)
    if not _is_next(driver, last, batch.batch_id):
        assert last.decided is not None
        if driver.gaps and batch.transactions not in ((), last.decided.transactions):
            raise SecondWrite(
                f"sink {driver.sink}: batch {batch.batch_id} of query {batch.query_id} was already"
                " written with this sinkId, by another write of the same program: give each write"
                " its own sinkId"
            )
        return None
    _not_given_up(driver, last, batch.batch_id)
    if last.unfinished is not None:
        raise Unfinished(
            f"sink {driver.sink}: batch {last.unfinished.batch_id} of query"
            f" {last.unfinished.query_id} is decided and not yet complete: start the query again,"
            " which completes it"
        )
    return last.with_decision(batch)


def _not_given_up(driver: Driver, last: SinkRecord, batch_id: int) -> None:
    if last.has_given_up(driver.claim, batch_id):
        raise BatchGivenUp(
            f"sink {driver.sink}: batch {batch_id} of query {driver.claim.query_id} has been given"
            f" up by run {driver.claim.run_id}: the next run repeats it"
        )


def _is_newer(driver: Driver, last: SinkRecord, planned: SinkRecord | None) -> bool:
    """Whether another run, which holds the sink, came after this one."""
    seen = None if planned is None else planned.claim
    return last.claim != seen or driver.claim.run_id in last.former


def _is_next(driver: Driver, last: SinkRecord, batch_id: int) -> bool:
    """False: the batch is decided already."""
    before, query_id = last.decided, driver.claim.query_id
    if before is None:
        return True
    own = before.query_id == query_id
    place = place_of(
        batch_id,
        last_batch_id=before.batch_id if own else None,
        taken_over=not own and query_id in last.former_queries,
    )
    match place:
        case BatchPlace.FIRST | BatchPlace.NEXT:
            return True
        case BatchPlace.REPEATED:
            return False
        case BatchPlace.LATER:
            if driver.gaps:
                return True
            raise MissingBatch(
                f"sink {driver.sink}: batch {batch_id} of query {query_id} cannot be next,"
                f" {before.batch_id} was decided last: decisions in between are missing"
            )
        case BatchPlace.OLDER:
            raise OlderBatch(
                f"sink {driver.sink}: batch {batch_id} of query {query_id} is too old,"
                f" {before.batch_id} is already decided: its checkpoint is out of date"
            )
        case BatchPlace.SUPERSEDED:
            raise Superseded(
                f"sink {driver.sink}: query {before.query_id} has written under its name since"
                f" query {query_id} did: its last batch is unknown"
            )
        case _:
            assert_never(place)


def _clear(driver: Driver, *, own: bool) -> Flow[None]:
    """Aborts what was left open, of older runs and of the `own` one; all that is decided is done.
    While tasks of the own run write, what they write is spared.
    """
    for transactional_id in (yield from _left_open(driver)):
        if own or run_of(transactional_id) != driver.claim.run_id:
            yield Abort(transactional_id)


def _left_open(driver: Driver) -> Flow[list[str]]:
    """What is open of the run that holds the sink and of older ones; Superseded if another run has
    claimed by the time that it is listed.
    """
    left = yield from open_ids(driver)
    last: SinkRecord | None = yield ReadLast()
    if last is None or last.claim != driver.claim:
        raise superseded(driver, last)
    return left


def open_ids(driver: Driver) -> Flow[list[str]]:
    """The transactions of the sink that are open, whichever run's."""
    listed: tuple[str, ...] = yield ListOpen(prefix_of(driver.sink))
    attempts = ((one, attempt_of(one)) for one in listed)
    return [name for name, attempt in attempts if attempt and attempt.sink == driver.sink]
