"""Both forms of AddPartitionsToTxn, and AddOffsetsToTxn, say the same to the coordinator."""

from collections.abc import Mapping

from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.transactions.enlist import (
    Enlist,
    Enlisted,
    enlist_reply,
    enlistment_of_offsets,
    enlistments,
)
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from rig.transactions import Client, Coordinator, identity, partitions

TOPICS = [
    AddPartitionsToTxnTopic(name="b", partitions=[1, 0]),
    AddPartitionsToTxnTopic(name="a", partitions=[2]),
]
RESULTS = [
    AddPartitionsToTxnTopicResult(
        name="b",
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=0),
            AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=51),
        ],
    )
]
ERRORS = dict(
    zip(
        partitions("b-1", "b-0"),
        [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS],
        strict=True,
    )
)


def answer(errors: Mapping[TopicPartition, ErrorCode]) -> Enlisted:
    return Enlisted(errors=errors, error=ErrorCode.NONE)


def test_a_client_adds_to_its_own_transaction() -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=TOPICS,
    )
    assert enlistments(request, version=3) == (
        Enlist(
            transactional_id="t",
            producer=identity(7, 3),
            partitions=partitions("b-1", "b-0", "a-2"),
        ),
    )
    assert enlist_reply([("t", answer(ERRORS))], version=3) == AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=RESULTS
    )


def test_a_broker_adds_and_verifies_for_many() -> None:
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="t", producer_id=7, producer_epoch=3, topics=TOPICS
            ),
            AddPartitionsToTxnTransaction(
                transactional_id="u", producer_id=8, producer_epoch=0, verify_only=True
            ),
        ]
    )
    assert enlistments(request, version=5) == (
        Enlist(
            transactional_id="t",
            producer=identity(7, 3),
            partitions=partitions("b-1", "b-0", "a-2"),
            client_version=2,
        ),
        Enlist(
            transactional_id="u",
            producer=identity(8, 0),
            partitions=(),
            verify_only=True,
            client_version=2,
        ),
    )
    answers = [("t", answer(ERRORS)), ("u", answer({}))]
    assert enlist_reply(answers, version=5) == AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id="t", topic_results=RESULTS),
            AddPartitionsToTxnResult(transactional_id="u", topic_results=[]),
        ]
    )


def test_a_groups_offsets_are_a_partition_like_any_other() -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=7, producer_epoch=3, group_id="g"
    )
    holds_the_group = TopicPartition("__consumer_offsets", 12)
    assert enlistment_of_offsets(request, partition=holds_the_group) == Enlist(
        transactional_id="t", producer=identity(7, 3), partitions=(holds_the_group,)
    )


def test_no_partitions_begin_no_transaction() -> None:
    coordinator = Coordinator()
    client = Client(coordinator=coordinator)
    client.init()
    assert client.add() == ErrorCode.NONE
    assert coordinator.state() == "Empty"


def test_a_request_without_an_id_is_refused() -> None:
    reply = Coordinator().ask(
        Enlist(transactional_id="", producer=identity(1, 0), partitions=partitions("a-0")),
        version=3,
    )
    assert isinstance(reply, Enlisted)
    assert reply.error == ErrorCode.INVALID_REQUEST
    assert set(reply.errors.values()) == {ErrorCode.INVALID_REQUEST}
