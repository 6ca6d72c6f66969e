"""Each rule of the sink is needed: without it the small world finds what goes wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.spark.sink import flows
from penstock.spark.sink.actions import Abort, Commit, Fence, ReadLast, Reclaim
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord
from penstock.spark.sink.flows import Driver, Flow
from rig.sink_schedules import explore, explore_reused_id

SCHEDULES = 3_000
CLEAR = flows._clear


def claim_that_forgets(record: SinkRecord, claim: Claim) -> SinkRecord:
    return SinkRecord(claim=claim)


def claim_of_anyone(record: SinkRecord, claim: Claim) -> SinkRecord:
    return replace(record, claim=claim)


def decision_of_anyone(
    driver: Driver, last: SinkRecord | None, batch: Decided
) -> SinkRecord | None:
    if last is not None and last.decided is not None and last.decided.batch_id >= batch.batch_id:
        return None
    return SinkRecord(claim=driver.claim, decided=batch, is_done=False)


def decision_each_time(
    driver: Driver, last: SinkRecord | None, batch: Decided
) -> SinkRecord | None:
    if last is None or last.claim != driver.claim:
        raise flows._superseded(driver, last)
    return SinkRecord(claim=driver.claim, decided=batch, is_done=False)


def commit_of_whatever_is_open(driver: Driver, decided: Prepared) -> Flow[None]:
    if not (yield Commit(decided)):
        reclaimed = yield Reclaim(decided.transactional_id)
        if reclaimed is not None:
            yield Commit(reclaimed.held_by)


def commit_once(driver: Driver, decided: Prepared) -> Flow[None]:
    yield Commit(decided)


def clear_without_a_look(driver: Driver, *, own: bool) -> Flow[None]:
    for transactional_id in (yield from flows._open(driver)):
        yield Abort(transactional_id)


def clear_nothing(driver: Driver, *, own: bool) -> Flow[None]:
    yield ReadLast()


def clear_what_tasks_write(driver: Driver, *, own: bool) -> Flow[None]:
    yield from CLEAR(driver, own=True)


def give_up_everything(driver: Driver) -> Flow[None]:
    yield Fence()
    for transactional_id in (yield from flows._open(driver)):
        yield Abort(transactional_id)


def finish_before_it_is(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    done = yield from flows._write(lambda last: last and replace(last, is_done=True))
    for transaction in record.unfinished.transactions if record.unfinished else ():
        yield from flows._commit(driver, transaction)
    return done


BUGS: list[tuple[str, Callable[..., Any]]] = [
    ("_decision", decision_of_anyone),
    ("_decision", decision_each_time),
    ("_commit", commit_once),
    ("_clear", clear_without_a_look),
    ("_clear", clear_nothing),
    ("_clear", clear_what_tasks_write),
    ("_finish", finish_before_it_is),
]


@pytest.mark.parametrize(("place", "bug"), BUGS, ids=lambda one: getattr(one, "__name__", one))
def test_planted_bug_is_found(
    place: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, place, bug)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=True)


@pytest.mark.parametrize("bug", [claim_that_forgets, claim_of_anyone])
def test_claim_that_forgets_what_was_before_is_found(
    bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SinkRecord, "claimed_by", bug)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=True)


def test_commit_of_whatever_is_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_commit", commit_of_whatever_is_open)
    with pytest.raises(AssertionError, match="nobody decided it"):
        explore_reused_id()
