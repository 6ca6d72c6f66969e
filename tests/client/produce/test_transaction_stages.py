"""What a transactional producer may do, and what follows from which answer."""

import pytest

from penstock.client.network.errors import (
    AbortOnly,
    ClientError,
    CommitInDoubt,
    ConnectionLost,
    Fenced,
    Refused,
    WrongStage,
)
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction import (
    ProducerTransaction,
    Stage,
    Wish,
    begun,
    closing,
    ended,
    ending,
    enlisted,
    harmed,
    identified,
    prepared,
    refusal,
    touched,
    unanswered,
)
from penstock.client.produce.transaction_answers import Answer, Asked, Asking, Verdict, verdict
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.transactions.state import Identity

FIRST = Identity(ProducerId(7), ProducerEpoch(0))
SECOND = Identity(ProducerId(7), ProducerEpoch(1))
LOST = ConnectionLost("cut")
OPEN_STAGES = [Stage.OPEN, Stage.CLOSING]


def done(identity: Identity | None = None, ongoing: Identity | None = None) -> Answer:
    return Answer(verdict=Verdict.DONE, identity=identity, ongoing=ongoing)


def told(asked: Asked, code: ErrorCode) -> Answer:
    """A first answer that is no success."""
    asking = Asking(asked=asked)
    found = asking.heard(code)
    return Answer(verdict=found, error=Refused(code, "t"), code=code, in_doubt=asking.in_doubt)


def nobody_answered() -> Answer:
    return Answer(verdict=Verdict.ELSEWHERE, error=LOST, in_doubt=True)


def ready(generation: Generation = Generation.TWO) -> ProducerTransaction:
    new = ProducerTransaction(transactional_id="t")
    return identified(new, done(FIRST), generation)


def written(generation: Generation = Generation.TWO) -> ProducerTransaction:
    return enlisted(touched(begun(ready(generation), generation)), done())


def committing(generation: Generation = Generation.TWO) -> ProducerTransaction:
    return ending(closing(written(generation)), commit=True)


def aborting(generation: Generation = Generation.TWO) -> ProducerTransaction:
    return ending(written(generation), commit=False)


def wishes(transaction: ProducerTransaction) -> set[Wish]:
    return {wish for wish in Wish if refusal(transaction, wish) is None}


def test_each_end_of_generation_2_brings_the_next_identity() -> None:
    for ends in (committing(), aborting()):
        after = ended(ends, done(SECOND))
        assert (after.stage, after.identity) == (Stage.READY, SECOND)


def test_commit_of_generation_1_keeps_the_identity_and_an_abort_uses_it_up() -> None:
    after = ended(committing(Generation.ONE), done())
    assert (after.stage, after.identity) == (Stage.READY, FIRST)
    after = ended(aborting(Generation.ONE), done())
    assert (after.stage, after.identity) == (Stage.NEW, FIRST)
    after = identified(after, done(SECOND), Generation.ONE)
    assert (after.stage, after.identity) == (Stage.READY, SECOND)


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_nobody_has_heard_of_is_ended_without_asking(commit: bool) -> None:
    opened = begun(ready(), Generation.TWO)
    after = ending(closing(opened) if commit else opened, commit=commit)
    assert (after.stage, after.identity) == (Stage.READY, FIRST)


def test_commit_that_nobody_answered_can_only_be_asked_for_again() -> None:
    after = ended(committing(), nobody_answered())
    assert wishes(after) == {Wish.COMMIT}
    assert isinstance(unanswered(after, nobody_answered()), CommitInDoubt)
    again = ended(ending(after, commit=True), done(SECOND))
    assert again.stage is Stage.READY
    assert not again.in_doubt


def test_whoever_is_fenced_in_doubt_is_told_so() -> None:
    fenced = told(Asked.COMMIT, ErrorCode.PRODUCER_FENCED)
    for before, in_doubt in ((committing(), False), (ended(committing(), nobody_answered()), True)):
        after = ended(before, fenced)
        assert after.stage is Stage.OVER
        assert isinstance(after.error, Fenced)
        assert after.error.in_doubt is in_doubt


def test_commit_asked_for_again_is_in_doubt_even_if_its_first_answer_was_not_awaited() -> None:
    cancelled = committing()
    after = ended(ending(cancelled, commit=True), told(Asked.COMMIT, ErrorCode.PRODUCER_FENCED))
    assert isinstance(after.error, Fenced)
    assert after.error.in_doubt


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS]
)
def test_coordinator_that_did_nothing_yet_leaves_no_doubt(code: ErrorCode) -> None:
    after = ended(committing(), told(Asked.COMMIT, code))
    assert after.stage is Stage.COMMITTING
    assert not after.in_doubt


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE])
def test_commit_of_what_the_coordinator_has_not_leaves_an_abort(code: ErrorCode) -> None:
    after = ended(ended(committing(), nobody_answered()), told(Asked.COMMIT, code))
    assert wishes(after) == {Wish.ABORT}
    assert not after.in_doubt
    after = ended(ending(after, commit=False), done(SECOND))
    assert (after.stage, after.error) == (Stage.READY, None)


@pytest.mark.parametrize("stage", OPEN_STAGES)
def test_what_was_lost_keeps_a_transaction_from_being_committed(stage: Stage) -> None:
    transaction = written() if stage is Stage.OPEN else closing(written())
    first, second = ClientError("first"), ClientError("second")
    after = harmed(harmed(transaction, first), second)
    assert wishes(after) == {Wish.ABORT}
    refused = refusal(after, Wish.COMMIT)
    assert isinstance(refused, AbortOnly)
    assert refused.reason is first


@pytest.mark.parametrize(
    ("code", "stage"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Stage.ABORT_ONLY),
        (ErrorCode.ILLEGAL_GENERATION, Stage.ABORT_ONLY),
        (ErrorCode.TRANSACTION_ABORTABLE, Stage.ABORT_ONLY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Stage.ABORT_ONLY),
        (ErrorCode.NOT_COORDINATOR, Stage.ABORT_ONLY),  # until time was up
        (ErrorCode.PRODUCER_FENCED, Stage.OVER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Stage.OVER),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Stage.OVER),
    ],
)
def test_offsets_that_are_refused_spoil_the_transaction_or_the_producer(
    code: ErrorCode, stage: Stage
) -> None:
    after = enlisted(touched(begun(ready(), Generation.TWO)), told(Asked.OFFSETS, code))
    assert after.stage is stage


def test_abort_of_generation_1_may_find_that_nothing_was_ever_added() -> None:
    unsure = touched(begun(ready(Generation.ONE), Generation.ONE))
    lost = enlisted(unsure, nobody_answered())
    nothing = told(Asked.ABORT, ErrorCode.INVALID_TXN_STATE)
    assert ended(ending(lost, commit=False), nothing).stage is Stage.NEW
    assert ended(aborting(Generation.ONE), nothing).stage is Stage.OVER
    assert ended(aborting(Generation.TWO), nothing).stage is Stage.OVER


def test_prepared_transaction_is_committed_or_aborted_and_nothing_else() -> None:
    assert wishes(prepared(closing(written()))) == {Wish.COMMIT, Wish.ABORT}
    assert prepared(closing(begun(ready(), Generation.TWO))).stage is Stage.READY


def test_kept_transaction_is_committed_or_aborted_under_the_new_identity() -> None:
    new = ProducerTransaction(transactional_id="t")
    kept = identified(new, done(SECOND, ongoing=FIRST), Generation.TWO)
    assert wishes(kept) == {Wish.COMMIT, Wish.ABORT}
    assert (kept.identity, kept.kept) == (SECOND, FIRST)
    third = Identity(ProducerId(7), ProducerEpoch(2))
    after = ended(ending(kept, commit=True), done(third))
    assert (after.stage, after.identity, after.kept) == (Stage.READY, third, None)


def test_identity_may_be_asked_for_again_when_time_was_up() -> None:
    new = ProducerTransaction(transactional_id="t")
    after = identified(new, told(Asked.IDENTITY, ErrorCode.NOT_COORDINATOR), Generation.TWO)
    assert after == new
    refused = told(Asked.IDENTITY, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert identified(new, refused, Generation.TWO).stage is Stage.OVER


@pytest.mark.parametrize("wish", list(Wish))
def test_wish_at_the_wrong_time_says_what_the_stage_is(wish: Wish) -> None:
    if wish is not Wish.BEGIN:
        assert isinstance(refusal(ready(), wish), WrongStage)
    else:
        assert isinstance(refusal(written(), wish), WrongStage)


@pytest.mark.parametrize("asked", list(Asked))
def test_every_code_has_its_verdict(asked: Asked) -> None:
    for code in ErrorCode:
        found = verdict(asked, code)
        assert (found is Verdict.DONE) == (code == ErrorCode.NONE)
        if asked is Asked.ABORT:
            assert found is not Verdict.ABORT_ONLY
