"""Questions about transactions that another node coordinates: put together, answered one by one."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.limit import ENLISTMENTS_PER_REQUEST_MAX, ENLISTMENTS_WAITING_MAX
from penstock.transactions.enlist import Enlist, Enlisted, enlistments
from penstock.transactions.enlist_queue import EnlistQueue
from penstock.transactions.state import Identity
from penstock.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

VERSION = 5
ORDERS, ORDERS_1, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("bills", 0),
)
OK = ErrorCode.NONE
NOT_IN_IT = ErrorCode.TRANSACTION_ABORTABLE


def question(
    transactional_id: str, *names: TopicPartition, epoch: int = 0, verify_only: bool = True
) -> Enlist:
    return Enlist(
        transactional_id=transactional_id,
        producer=Identity(ProducerId(7), ProducerEpoch(epoch)),
        partitions=names,
        verify_only=verify_only,
        client_version=2,
    )


def queue() -> EnlistQueue[str]:
    return EnlistQueue(waiting=[])


def asked(request: AddPartitionsToTxnRequest | None) -> list[Enlist]:
    """As the coordinator reads it."""
    assert request is not None
    return list(enlistments(request, version=VERSION))


def told(
    errors: Mapping[str, Mapping[TopicPartition, ErrorCode]], *, coordinator_epoch: int = 3
) -> dict[str, Enlisted]:
    """What a reply says of each transactional id."""
    return {
        key: Enlisted(errors=codes, error=OK, coordinator_epoch=coordinator_epoch)
        for key, codes in errors.items()
    }


def test_a_question_goes_out_as_it_was_asked() -> None:
    questions = queue()
    first = question("billing", ORDERS, BILLS, ORDERS_1, verify_only=False)
    questions.add(first, "a")
    [read] = asked(questions.take())
    assert set(read.partitions) == set(first.partitions)
    assert (read.transactional_id, read.producer, read.verify_only, read.client_version) == (
        first.transactional_id, first.producer, first.verify_only, first.client_version,
    )  # fmt: skip


def test_questions_gather_while_a_request_is_outstanding() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    assert [one.transactional_id for one in asked(questions.take())] == ["billing"]
    questions.add(question("shipping", ORDERS), "b")
    questions.add(question("mailing", BILLS), "c")
    assert questions.take() is None
    questions.answered(told({"billing": {ORDERS: OK}}))
    assert [one.transactional_id for one in asked(questions.take())] == ["shipping", "mailing"]


def test_each_asker_gets_the_errors_of_its_own_partitions() -> None:
    """Several produce requests of one producer are on their way at once."""
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.add(question("billing", BILLS, ORDERS_1), "b")
    questions.add(question("shipping", ORDERS), "c")
    merged, other = asked(questions.take())
    assert merged.partitions == (ORDERS, ORDERS_1, BILLS)
    assert other.partitions == (ORDERS,)
    answers = questions.answered(
        told(
            {
                "billing": {ORDERS: OK, BILLS: NOT_IN_IT, ORDERS_1: OK},
                "shipping": {ORDERS: NOT_IN_IT},
            }
        )
    )
    assert [(asker, dict(answer.errors)) for asker, answer in answers] == [
        ("a", {ORDERS: OK}),
        ("b", {BILLS: NOT_IN_IT, ORDERS_1: OK}),
        ("c", {ORDERS: NOT_IN_IT}),
    ]


def test_a_question_that_cannot_be_put_together_with_another_waits_for_the_next_request() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.add(question("billing", ORDERS, epoch=1), "another epoch")
    questions.add(question("billing", BILLS, verify_only=False), "adds")
    [first] = asked(questions.take())
    assert first.producer.epoch == 0
    questions.answered(told({"billing": {ORDERS: OK}}))
    [second] = asked(questions.take())
    assert second.producer.epoch == 1
    questions.answered(told({"billing": {ORDERS: OK}}))
    [third] = asked(questions.take())
    assert third.partitions == (BILLS,)
    assert not third.verify_only


def test_what_the_answer_leaves_out_is_not_verified() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    [(_, answer)] = questions.answered(told({}))
    assert answer.errors == {ORDERS: ErrorCode.UNKNOWN_SERVER_ERROR}


def test_requests_and_the_queue_have_bounds() -> None:
    questions = queue()
    for number in range(ENLISTMENTS_WAITING_MAX):
        assert questions.add(question(f"id-{number}", ORDERS), "a")
    assert not questions.add(question("one more", ORDERS), "b")
    assert len(asked(questions.take())) == ENLISTMENTS_PER_REQUEST_MAX


def test_questions_about_ids_that_moved_are_taken_out_whether_they_were_sent_or_not() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "sent, stays")
    questions.add(question("shipping", ORDERS), "sent, moves")
    questions.take()
    questions.add(question("shipping", BILLS), "waits, moves")
    questions.add(question("mailing", BILLS), "waits, stays")
    moved = questions.take_moved(lambda key: key != "shipping")
    assert [asker for _, asker in moved] == ["sent, moves", "waits, moves"]
    assert questions.take_moved(lambda key: key != "shipping") == []
    answers = questions.answered(told({"billing": {ORDERS: OK}, "shipping": {ORDERS: OK}}))
    assert [asker for asker, _ in answers] == ["sent, stays"]
    assert [one.transactional_id for one in asked(questions.take())] == ["mailing"]


def test_one_request_is_outstanding_also_when_all_its_questions_have_moved() -> None:
    """The next reply is that of the first request: it must not answer the second one."""
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    questions.take_moved(lambda _: False)
    questions.add(question("mailing", ORDERS), "b")
    assert questions.take() is None
    assert questions.answered(told({"billing": {ORDERS: OK}})) == []
    assert [one.transactional_id for one in asked(questions.take())] == ["mailing"]


def test_questions_name_the_epoch_in_which_each_partition_is_led() -> None:
    """Of those that were put together the latest, which the coordinator must know."""
    questions = queue()
    first = replace(question("billing", ORDERS, BILLS), leader_epochs={ORDERS: 4, BILLS: 2})
    questions.add(first, "a")
    questions.add(replace(question("billing", ORDERS), leader_epochs={ORDERS: 5}), "b")
    [read] = asked(questions.take())
    assert read.leader_epochs == {ORDERS: 5, BILLS: 2}


def test_each_asker_learns_which_coordinator_answered() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    [(_, answer)] = questions.answered(told({"billing": {ORDERS: OK}}, coordinator_epoch=6))
    assert answer.coordinator_epoch == 6


def test_what_waits_behind_a_request_that_timed_out_is_refused_with_it() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    questions.add(question("shipping", ORDERS), "b")
    assert [asker for _, asker in questions.timed_out()] == ["a", "b"]
    assert questions.take() is None


def test_nothing_waits_behind_a_request_to_a_silent_node_until_it_answers() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    questions.timed_out()
    assert questions.add(question("billing", ORDERS), "b")
    assert questions.take() is not None
    assert not questions.add(question("shipping", ORDERS), "c")
    questions.answered(told({"billing": {ORDERS: OK}}))
    assert questions.add(question("shipping", ORDERS), "d")
    questions.take()
    assert questions.add(question("mailing", ORDERS), "e")


def test_a_connection_that_breaks_refuses_only_what_was_sent_on_it() -> None:
    questions = queue()
    questions.add(question("billing", ORDERS), "a")
    questions.take()
    questions.add(question("shipping", ORDERS), "b")
    assert [asker for _, asker in questions.settled()] == ["a"]
    assert [one.transactional_id for one in asked(questions.take())] == ["shipping"]
