"""What a client sends without waiting for replies is decided in the order in which it sent it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from rig.raw_producer import NOT_YET, Pipeline, RawProducer
from rig.running_node import running_node

TOPIC = "orders"
OK = ErrorCode.NONE
ENDED = ("CompleteCommit", "PrepareCommit")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data: Path = tmp_path_factory.mktemp("node")
    with running_node(data, group_initial_rebalance_delay_ms="0") as node:
        pipeline = Pipeline(node.bootstrap)
        wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        [created] = pipeline.ask(CreateTopicsRequest(topics=[wanted]), version=7).topics
        assert created.error_code == OK
        pipeline.close()
        yield node.bootstrap


@pytest.fixture
def pipeline(bootstrap: str) -> Iterator[Pipeline]:
    """To the coordinator of the group g."""
    pipeline = Pipeline(bootstrap)
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    while pipeline.ask(find, version=4).coordinators[0].error_code in NOT_YET:
        pass
    yield pipeline
    pipeline.close()


@pytest.fixture
def producer(
    bootstrap: str, pipeline: Pipeline, request: pytest.FixtureRequest
) -> Iterator[RawProducer]:
    producer = RawProducer(bootstrap, request.node.name)
    producer.init()
    yield producer
    producer.pipeline.close()


def state_of(producer: RawProducer) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
    [told] = producer.pipeline.ask(request, version=0).transaction_states
    return str(told.transaction_state)


def test_a_transaction_ends_after_its_partitions_were_added(producer: RawProducer) -> None:
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    added, ended = producer.pipeline.ask_together(
        (add, 3), (producer.end_request(committed=True), 3)
    )
    [topic] = added.results_by_topic_v3_and_below
    assert topic.results_by_partition[0].partition_error_code == OK
    assert ended.error_code == OK
    assert state_of(producer) in ENDED


def test_a_transaction_ends_after_a_group_was_added(producer: RawProducer) -> None:
    add = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    added, ended = producer.pipeline.ask_together(
        (add, 3), (producer.end_request(committed=True), 3)
    )
    assert (added.error_code, ended.error_code) == (OK, OK)
    assert state_of(producer) in ENDED


def test_a_transaction_ends_after_offsets_were_committed_in_it(producer: RawProducer) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    committed, ended = producer.pipeline.ask_together(
        (commit, 5), (producer.end_request(committed=True), 5)
    )
    assert committed.topics[0].partitions[0].error_code == OK
    assert ended.error_code == OK
    assert producer.fetch_offset("g", TOPIC) in (7, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert state_of(producer) in ENDED


def test_a_member_leaves_after_it_has_joined(pipeline: Pipeline) -> None:
    join = JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id="i")])
    _, left = pipeline.ask_together((join, 5), (leave, 5))
    assert [member.error_code for member in left.members] == [OK]
    [group] = pipeline.ask(DescribeGroupsRequest(groups=["g"]), version=5).groups
    assert group.members == []


def test_offsets_are_fetched_as_they_were_before_the_next_commit(pipeline: Pipeline) -> None:
    wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="reader", topics=[wanted])])
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    commit = OffsetCommitRequest(
        group_id="reader", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
    )
    before, committed, after = pipeline.ask_together((fetch, 9), (commit, 8), (fetch, 9))
    assert committed.topics[0].partitions[0].error_code == OK
    offsets = [
        reply.groups[0].topics[0].partitions[0].committed_offset for reply in (before, after)
    ]
    assert offsets == [-1, 5]
