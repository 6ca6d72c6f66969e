"""Each rule of the sink is needed: without it the small world finds what goes wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.spark.sink import completion, flows, record_change
from penstock.spark.sink.actions import Abort, Commit, Fence, Look, ReadLast, Reclaim, Seen
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord
from penstock.spark.sink.names import Attempt, first_attempt
from penstock.spark.sink.record_change import Driver, Flow
from rig import sink_world
from rig.sink_schedules import explore, explore_given_up, explore_reused_id

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
        raise record_change.superseded(driver, last)
    return SinkRecord(claim=driver.claim, decided=batch, is_done=False)


def commit_of_whatever_is_open(driver: Driver, decided: Prepared, *beside: object) -> Flow[bool]:
    if not (yield Commit(decided)):
        reclaimed = yield Reclaim(decided.transactional_id)
        if reclaimed is not None:
            yield Commit(reclaimed.held_by)
    return True


def commit_once(driver: Driver, decided: Prepared, *beside: object) -> Flow[bool]:
    yield Commit(decided)
    return True


def commit_by_what_the_coordinator_says(
    driver: Driver, decided: Prepared, *beside: object
) -> Flow[bool]:
    if (yield Commit(decided)):
        return True
    seen = yield Look(decided.transactional_id)
    if seen is Seen.OPEN:
        reclaimed = yield Reclaim(decided.transactional_id)
        if reclaimed is not None and reclaimed.written_by == decided:
            return bool((yield Commit(reclaimed.held_by)))
    return seen is not Seen.ABORTED


def give_up_in_silence(driver: Driver, batch_id: int | None = None) -> Flow[None]:
    yield Fence()
    last = yield ReadLast()
    yield from flows.abort_given_up(driver, last)


def end_in_silence(driver: Driver) -> Flow[None]:
    last = yield ReadLast()
    yield from flows.abort_given_up(driver, last)


def end_without_completing(driver: Driver) -> Flow[None]:
    yield from flows.give_up(driver)


def clear_all_of_the_run(driver: Driver) -> Flow[None]:
    last = yield ReadLast()
    yield from flows.abort_given_up(driver, last)


def clear_without_a_look(driver: Driver, *, own: bool) -> Flow[None]:
    for transactional_id in (yield from flows.open_ids(driver)):
        yield Abort(transactional_id)


def clear_nothing(driver: Driver, *, own: bool) -> Flow[None]:
    yield ReadLast()


def clear_what_tasks_write(driver: Driver, *, own: bool) -> Flow[None]:
    yield from CLEAR(driver, own=True)


def give_up_everything(driver: Driver, batch_id: int | None = None) -> Flow[None]:
    yield Fence()
    for transactional_id in (yield from flows.open_ids(driver)):
        yield Abort(transactional_id)


def finish_before_it_is(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    done = yield from record_change.write_record(lambda last: last and replace(last, is_done=True))
    for transaction in record.unfinished.transactions if record.unfinished else ():
        yield from completion._commit(driver, transaction)
    return done


BUGS: list[tuple[str, Callable[..., Any]]] = [
    ("_decision", decision_of_anyone),
    ("_decision", decision_each_time),
    ("_commit", commit_once),
    ("_clear", clear_without_a_look),
    ("_clear", clear_nothing),
    ("_clear", clear_what_tasks_write),
    ("finish", finish_before_it_is),
]


@pytest.mark.parametrize(("place", "bug"), BUGS, ids=lambda one: getattr(one, "__name__", one))
def test_planted_bug_is_found(
    place: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion if place == "_commit" else flows, place, bug)
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


def test_giving_up_more_than_the_own_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_world, "give_up", give_up_everything)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=True)


@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("end_run", end_in_silence),
        ("end_run", end_without_completing),
        ("clear_idle", clear_all_of_the_run),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_wrong_way_to_clear_up_is_found(
    place: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_world, place, bug)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=True)


def test_trust_in_what_the_coordinator_says_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_commit", commit_by_what_the_coordinator_says)
    with pytest.raises(AssertionError, match="not committed"):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=True, foreign=True)


def test_giving_up_without_a_record_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_world, "give_up", give_up_in_silence)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore_given_up(seed, two_phase=True)


def test_name_that_a_second_attempt_of_a_stage_has_too_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_attempt_alone(*place: Any, two_phase: bool) -> Attempt:
        return replace(first_attempt(*place, two_phase=two_phase), stage_attempt=0)

    monkeypatch.setattr(sink_world, "first_attempt", by_attempt_alone)
    with pytest.raises(AssertionError):
        for seed in range(SCHEDULES):
            explore(seed, two_phase=False)


def test_commit_of_whatever_is_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_commit", commit_of_whatever_is_open)
    with pytest.raises(AssertionError, match="nobody decided it"):
        explore_reused_id()
