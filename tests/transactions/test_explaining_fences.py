"""Who was fenced and who took over, found by comparing a transaction before and after."""

from penstock.transactions.fencing import Aborted, AbortedBecause, Fenced, TookOver
from rig.transaction_scenario import Run


def play(*steps: str) -> list[TookOver | Aborted | Fenced]:
    run = Run()
    for step in steps:
        run._do(step)
    return run.coordinator.explained


def test_a_zombie_is_named_with_both_identities() -> None:
    found = play("a begins", "a adds orders-0", "b begins", "markers are written", "b begins")
    [aborted, took_over] = found
    assert isinstance(aborted, Aborted)
    assert aborted.because is AbortedBecause.ANOTHER_PRODUCER
    assert isinstance(took_over, TookOver)
    assert took_over.gained.epoch > took_over.held.epoch >= aborted.producer.epoch


def test_a_client_that_goes_on_after_an_error_has_not_taken_over_from_itself() -> None:
    found = play("a begins", "a adds orders-0", "a begins, trading in")
    assert [one.because for one in found if isinstance(one, Aborted)] == [
        AbortedBecause.SAME_PRODUCER
    ]
    assert not any(isinstance(one, TookOver) for one in found)


def test_requests_of_a_zombie_are_told_with_their_api() -> None:
    found = play("a begins", "b begins", "a adds orders-0", "a commits", "a begins, trading in")
    fenced = [one for one in found if isinstance(one, Fenced)]
    assert [one.api for one in fenced] == ["AddPartitionsToTxn", "EndTxn", "InitProducerId"]
    for one in fenced:
        assert one.current is not None
        assert (one.producer.epoch, one.current.epoch) == (0, 1)


def test_a_transaction_that_timed_out_is_told_with_its_time() -> None:
    [aborted] = play("a begins", "a adds orders-0", "60 s pass")
    assert isinstance(aborted, Aborted)
    assert aborted.because is AbortedBecause.TIMED_OUT
    assert (aborted.open_ms, aborted.timeout_ms) == (60_000, 60_000)


def test_ordinary_work_is_not_told() -> None:
    work = ("a begins", "a adds orders-0", "a commits", "markers are written", "a adds orders-0")
    assert play(*work, "a aborts") == []
