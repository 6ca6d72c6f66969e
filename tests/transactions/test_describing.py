"""DescribeTransactions and ListTransactions show what the coordinator knows, filtered."""

import pytest

from penstock.model.error import ErrorCode
from penstock.transactions.describe import (
    DescribeTransaction,
    Filters,
    ListTransactions,
    filters_of,
    listed_together,
)
from penstock.wire.messages.describe_transactions import TopicData, TransactionState
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from rig.transactions import Client, Coordinator, partitions


@pytest.fixture
def coordinator() -> Coordinator:
    """Knows `empty`, `open` since 30 s with two partitions, and `done`."""
    coordinator = Coordinator()
    for name in ("empty", "open", "done"):
        client = Client(coordinator=coordinator, transactional_id=name)
        client.init()
        if name != "empty":
            client.add("orders-1", "orders-0", "audit-0")
        if name == "done":
            client.commit()
            coordinator.write_markers()
    coordinator.pass_time(30_000)
    return coordinator


def describe(coordinator: Coordinator, transactional_id: str) -> TransactionState:
    reply = coordinator.ask(DescribeTransaction(transactional_id=transactional_id))
    assert isinstance(reply, TransactionState)
    return reply


def listing(coordinator: Coordinator, filters: Filters) -> ListTransactionsResponse:
    ids = tuple(coordinator.shard.transactions)
    reply = coordinator.ask(ListTransactions(filters=filters, transactional_ids=ids))
    assert isinstance(reply, ListTransactionsResponse)
    return reply


def listed(coordinator: Coordinator, filters: Filters) -> list[str]:
    reply = listing(coordinator, filters)
    return [state.transactional_id for state in reply.transaction_states]


def test_an_open_transaction_is_shown_with_its_partitions(coordinator: Coordinator) -> None:
    assert describe(coordinator, "open") == TransactionState(
        transactional_id="open",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=coordinator.now_ms - 30_000,
        producer_id=1002,
        producer_epoch=0,
        topics=[
            TopicData(topic="audit", partitions=[0]),
            TopicData(topic="orders", partitions=[0, 1]),
        ],
    )


def test_a_decided_transaction_is_shown_with_what_has_no_marker_yet(
    coordinator: Coordinator,
) -> None:
    client = Client(coordinator=coordinator, transactional_id="half")
    client.init()
    client.add("orders-0", "orders-1")
    client.commit()
    [markers] = coordinator.sent
    coordinator.report(markers, only=partitions("orders-0"))
    shown = describe(coordinator, "half")
    assert shown.transaction_state == "PrepareCommit"
    assert shown.topics == [TopicData(topic="orders", partitions=[1])]


def test_an_id_that_never_began_has_no_start(coordinator: Coordinator) -> None:
    shown = describe(coordinator, "empty")
    assert (shown.transaction_state, shown.transaction_start_time_ms) == ("Empty", -1)
    assert shown.topics == []


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [("", ErrorCode.INVALID_REQUEST), ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)],
)
def test_what_is_not_there_is_an_error(
    coordinator: Coordinator, transactional_id: str, error: ErrorCode
) -> None:
    shown = describe(coordinator, transactional_id)
    assert (shown.transactional_id, shown.error_code) == (transactional_id, error)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ListTransactionsRequest(), ["empty", "open", "done"]),
        (ListTransactionsRequest(state_filters=["Ongoing"]), ["open"]),
        (ListTransactionsRequest(state_filters=["Ongoing", "Empty"]), ["empty", "open"]),
        (ListTransactionsRequest(state_filters=["Nonsense"]), []),
        (ListTransactionsRequest(producer_id_filters=[1001, 1003]), ["empty", "done"]),
        (ListTransactionsRequest(state_filters=["Ongoing"], duration_filter=29_999), ["open"]),
        (ListTransactionsRequest(state_filters=["Ongoing"], duration_filter=30_000), []),
    ],
)
def test_a_list_holds_what_passes_all_filters(
    coordinator: Coordinator, request_: ListTransactionsRequest, expected: list[str]
) -> None:
    assert listed(coordinator, filters_of(request_)) == expected


def test_a_list_holds_the_ids_that_a_pattern_matches(coordinator: Coordinator) -> None:
    request = ListTransactionsRequest()
    filters = filters_of(request, matches=lambda id: "e" in id)
    assert listed(coordinator, filters) == ["empty", "open", "done"]
    filters = filters_of(request, matches=lambda id: id == "open")
    assert listed(coordinator, filters) == ["open"]


def test_a_list_is_asked_for_some_ids_at_a_time(coordinator: Coordinator) -> None:
    filters = filters_of(ListTransactionsRequest())
    some = ListTransactions(filters=filters, transactional_ids=("done", "gone meanwhile"))
    reply = coordinator.ask(some)
    assert isinstance(reply, ListTransactionsResponse)
    assert [state.transactional_id for state in reply.transaction_states] == ["done"]


def test_filters_that_are_no_states_are_told_once() -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd", "Dead", "Odd"])
    assert listed_together(filters_of(request), ()).unknown_state_filters == ["Odd"]


def test_the_lists_of_many_shards_are_one(coordinator: Coordinator) -> None:
    filters = filters_of(ListTransactionsRequest(state_filters=["Ongoing", "Odd"]))
    replies = [listing(coordinator, filters), listing(Coordinator(), filters)]
    together = listed_together(filters, replies)
    assert [state.transactional_id for state in together.transaction_states] == ["open"]
    assert together.unknown_state_filters == ["Odd"]
