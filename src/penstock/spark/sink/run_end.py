"""What is done for a query between its batches and when it has ended. Pure: see `actions`.

    clear_idle  on the driver, while no batch runs: abort what earlier batches have left
    end_run     on the driver, when a query has ended: give up all that may come, and complete what
                is decided

Tasks that Spark kills may have a transaction open, and nobody else to end it.
"""

from dataclasses import replace

from penstock.spark.sink.actions import AbortOf, Holder, ReadLast
from penstock.spark.sink.completion import finish
from penstock.spark.sink.decision import GivenUp, Prepared, SinkRecord
from penstock.spark.sink.flows import abort_given_up, open_ids
from penstock.spark.sink.names import attempt_of, is_behind
from penstock.spark.sink.record_change import Driver, Flow, change_record


def clear_idle(driver: Driver) -> Flow[None]:
    """While a query waits for data: aborts what attempts of the last batch have left, that were
    killed after it was decided. The next batch may have begun: what can be its own is spared.
    """
    holders = []
    for transactional_id in (yield from open_ids(driver)):
        held_by: Prepared | None = yield Holder(transactional_id)
        if held_by is not None:
            holders.append(held_by)
    last: SinkRecord | None = yield ReadLast()
    decided = None if last is None else last.decided
    if last is None or decided is None or not last.is_done:
        return
    if (last.claim.run_id, decided.query_id) != (driver.claim.run_id, driver.claim.query_id):
        return
    for held_by in holders:
        attempt = attempt_of(held_by.transactional_id)
        assert attempt is not None
        of_this_run = attempt.run_id == driver.claim.run_id
        if is_behind(attempt, decided.batch_id, two_phase=driver.two_phase) and of_this_run:
            yield AbortOf(held_by)


def end_run(driver: Driver) -> Flow[None]:
    """When a run of a query is over, however it ended: it claims and decides nothing more, what it
    has decided is completed, and nothing of it stays open. It may be called again, as long as
    tasks of the run may write.
    """
    run_id = driver.claim.run_id

    def ended(last: SinkRecord | None) -> SinkRecord | None:
        if last is None:
            return None  # nobody has written; and a record that is missing must be missed
        if last.claim.run_id == run_id:
            return replace(last, given_up=GivenUp(run_id=run_id, batch_id=None))
        return last if run_id in last.former else last.without(run_id)

    last = yield from change_record(ended)
    yield from abort_given_up(driver, last)
    if last is not None and last.claim.run_id == run_id:
        yield from finish(replace(driver, claim=last.claim), last)
