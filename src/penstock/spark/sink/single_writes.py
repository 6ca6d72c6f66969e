"""The protocol of a write that is no query's: all of it, or nothing. Pure: see `actions`.

Its sink has a name that nobody else has, and its record goes when all is done. That somebody has
decided, or given up, is told after that by the decider's id: nobody takes it before.

    write_once  on the driver: decide, commit, abort the rest, take the record away
    give_up     on the driver: take the decider's id, abort what is not decided
    is_late     in each task that has written: whether it was decided, or given up, without it
    recover     anywhere: complete what is decided

Who decides or gives up takes the decider's id, and afterwards
lists what is open: a task that has written is on that list, or finds the id taken.
"""

from collections.abc import Sequence

from penstock.spark.sink.actions import Abort, Fence, Look, ReadLast, Seen, Write
from penstock.spark.sink.completion import commit_all, lost_of
from penstock.spark.sink.decision import Prepared, SinkRecord
from penstock.spark.sink.errors import Superseded
from penstock.spark.sink.flows import abort_given_up, decision_of, look_at, open_ids
from penstock.spark.sink.names import decider_id
from penstock.spark.sink.record_change import Driver, Flow, superseded, write_record


def is_late(driver: Driver) -> Flow[bool]:
    """After a task has written and before it tells."""
    seen: Seen = yield Look(decider_id(driver.sink))
    return seen is not Seen.NONE


def write_once(driver: Driver, prepared: Sequence[Prepared]) -> Flow[None]:
    """When every task has written. Whoever recovers may be quicker to complete it, and then the
    record is gone.
    """
    decided = decision_of(driver, 0, prepared)
    record = SinkRecord(claim=driver.claim, decided=decided, is_done=False, once=True)

    def decision(last: SinkRecord | None) -> SinkRecord:
        if last is not None and last.claim != driver.claim:
            raise superseded(driver, last)
        return record

    yield from write_record(decision, before=lambda: look_at(driver, decided))
    yield from recover(driver, record)


def give_up(driver: Driver) -> Flow[None]:
    """When a write failed, or nobody knows how it ended. The id is what tells its tasks."""
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    yield from abort_given_up(driver, last)


def given_up_by_another(sink: str) -> Superseded:
    """A task came late though the driver of its write has neither decided nor given up. Without
    that task's rows nothing may be decided.
    """
    return Superseded(
        f"sink {sink}: somebody gave this write up before it was decided, as `penstock transactions"
        " abort --sink` does: none of its rows are written; write them again"
    )


def recover(driver: Driver, record: SinkRecord) -> Flow[int]:
    """Completes what a record decides; how many transactions. Without its record it is done."""
    assert record.once
    assert record.unfinished is not None
    lost = yield from commit_all(driver, record.unfinished)
    if lost:
        raise lost_of(driver.sink, record.unfinished, lost)
    for transactional_id in (yield from open_ids(driver)):
        yield Abort(transactional_id)
    yield Fence()
    last: SinkRecord | None = yield ReadLast()
    if last == record:
        # Where this is lost, somebody recovers what is complete, which does no harm.
        yield Write(None)
    return len(record.unfinished.transactions)
