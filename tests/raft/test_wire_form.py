"""The quorum's messages survive the wire, and what is not meant for this quorum is refused."""

from typing import Any

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import (
    BeginEpochReply,
    BeginEpochRequest,
    EndEpochReply,
    EndEpochRequest,
    FetchReply,
    FetchRequest,
    FetchSnapshotReply,
    FetchSnapshotRequest,
    Refused,
    Run,
    VoteReply,
    VoteRequest,
)
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form import begin_epoch, end_epoch, fetch, fetch_snapshot, vote
from penstock.raft.wire_form.envelope import MeantForOthers, UnusableReply
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message

CLUSTER = "a-cluster"
SENDER = ReplicaKey(NodeId(1), b"d" * 16)
RECEIVER = ReplicaKey(NodeId(2), b"e" * 16)
STATIC = ReplicaKey(NodeId(2), None)  # a voter of kraft.version 0 has no directory id
EPOCH = LeaderEpoch(7)
END = LogEnd(LeaderEpoch(6), Offset(120))
SNAPSHOT = SnapshotId(Offset(100), LeaderEpoch(5))


def over_the_wire(message: Message, version: int | None = None) -> Any:
    chosen = type(message).VERSIONS.max if version is None else version
    return decode_exact(type(message), chosen, memoryview(encode(message, chosen)))


@pytest.mark.parametrize("voter", [RECEIVER, STATIC])
@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_survives(voter: ReplicaKey, pre_vote: bool) -> None:
    asked = VoteRequest(epoch=EPOCH, candidate=SENDER, voter=voter, log_end=END, pre_vote=pre_vote)
    message = over_the_wire(vote.request_to_wire(asked, cluster_id=CLUSTER))
    assert vote.request_from_wire(message, cluster_id=CLUSTER, receiver_id=2) == asked


def test_vote_of_the_first_version_is_meant_for_its_receiver() -> None:
    asked = VoteRequest(epoch=EPOCH, candidate=SENDER, voter=STATIC, log_end=END, pre_vote=False)
    message = over_the_wire(vote.request_to_wire(asked, cluster_id=CLUSTER), version=0)
    read = vote.request_from_wire(message, cluster_id=CLUSTER, receiver_id=2)
    assert (read.voter, read.candidate) == (STATIC, ReplicaKey(NodeId(1), None))


@pytest.mark.parametrize("error", [None, *Refused])
@pytest.mark.parametrize("leader_id", [None, NodeId(3)])
def test_replies_survive(error: Refused | None, leader_id: NodeId | None) -> None:
    voted = VoteReply(epoch=EPOCH, leader_id=leader_id, granted=error is None, error=error)
    assert vote.reply_from_wire(over_the_wire(vote.reply_to_wire(voted))) == voted
    begun = BeginEpochReply(epoch=EPOCH, leader_id=leader_id, error=error)
    assert begin_epoch.reply_from_wire(over_the_wire(begin_epoch.reply_to_wire(begun))) == begun
    ended = EndEpochReply(epoch=EPOCH, leader_id=leader_id, error=error)
    assert end_epoch.reply_from_wire(over_the_wire(end_epoch.reply_to_wire(ended))) == ended
    fetched = FetchReply(epoch=EPOCH, leader_id=leader_id, high_watermark=Offset(9), error=error)
    assert fetched_over_the_wire(fetched, b"").error == error


def test_begin_and_end_of_an_epoch_survive() -> None:
    begin = BeginEpochRequest(epoch=EPOCH, leader_id=NodeId(1), voter=RECEIVER)
    message = over_the_wire(begin_epoch.request_to_wire(begin, cluster_id=CLUSTER, endpoints=()))
    assert begin_epoch.request_from_wire(message, cluster_id=CLUSTER, receiver_id=2) == begin
    end = EndEpochRequest(epoch=EPOCH, leader_id=NodeId(1), successors=(RECEIVER, SENDER))
    message = over_the_wire(end_epoch.request_to_wire(end, cluster_id=CLUSTER, endpoints=()))
    assert end_epoch.request_from_wire(message, cluster_id=CLUSTER) == end


@pytest.mark.parametrize("high_watermark", [None, Offset(0), Offset(100)])
def test_fetch_survives(high_watermark: Offset | None) -> None:
    asked = FetchRequest(
        epoch=EPOCH, replica=SENDER, log_end=END, high_watermark=high_watermark, wait_ms_max=500
    )
    message = over_the_wire(fetch.request_to_wire(asked, cluster_id=CLUSTER, bytes_max=1000))
    assert fetch.request_from_wire(message, cluster_id=CLUSTER) == asked


def test_fetched_records_come_with_the_epochs_that_wrote_them() -> None:
    data = batch(120, epoch=6) + batch(121, epoch=6, count=2) + batch(123, epoch=7)
    reply = fetched_over_the_wire(a_reply(), data)
    assert bytes(reply.records) == data  # type: ignore[arg-type]  # a view of the reply
    assert reply.runs == (
        Run(epoch=LeaderEpoch(6), end_offset=Offset(123)),
        Run(epoch=LeaderEpoch(7), end_offset=Offset(124)),
    )


def test_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    data = batch(120, epoch=6) + batch(121, epoch=6)[:-1]
    [run] = fetched_over_the_wire(a_reply(), data).runs
    assert run.end_offset == 121


def test_damaged_records_are_not_believed() -> None:
    data = batch(120, epoch=6)
    with pytest.raises(UnusableReply, match="checksum"):
        fetched_over_the_wire(a_reply(), data[:-1] + bytes((data[-1] ^ 1,)))


def test_records_with_a_gap_are_not_believed() -> None:
    with pytest.raises(UnusableReply, match="gap before offset 122"):
        fetched_over_the_wire(a_reply(), batch(120, epoch=6) + batch(122, epoch=6))


def test_divergence_and_snapshots_survive() -> None:
    diverging = a_reply()
    diverging.diverging = END
    assert fetched_over_the_wire(diverging, b"").diverging == END
    behind = a_reply()
    behind.snapshot = SNAPSHOT
    assert fetched_over_the_wire(behind, b"").snapshot == SNAPSHOT


def test_parts_of_snapshots_survive() -> None:
    asked = FetchSnapshotRequest(epoch=EPOCH, replica=SENDER, snapshot=SNAPSHOT, position=40)
    message = over_the_wire(
        fetch_snapshot.request_to_wire(asked, cluster_id=CLUSTER, bytes_max=1000)
    )
    assert fetch_snapshot.request_from_wire(message, cluster_id=CLUSTER) == asked
    reply = FetchSnapshotReply(
        epoch=EPOCH,
        leader_id=NodeId(1),
        snapshot=SNAPSHOT,
        size=44,
        position=40,
        length=4,
        data=b"part",
    )
    assert (
        fetch_snapshot.reply_from_wire(
            over_the_wire(fetch_snapshot.reply_to_wire(reply, data=b"part"))
        )
        == reply
    )


def test_message_for_another_cluster_is_refused() -> None:
    asked = VoteRequest(epoch=EPOCH, candidate=SENDER, voter=RECEIVER, log_end=END, pre_vote=True)
    message = vote.request_to_wire(asked, cluster_id="another")
    with pytest.raises(MeantForOthers) as refusal:
        vote.request_from_wire(message, cluster_id=CLUSTER, receiver_id=2)
    assert refusal.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_message_about_another_topic_is_refused() -> None:
    asked = BeginEpochRequest(epoch=EPOCH, leader_id=NodeId(1), voter=RECEIVER)
    message = begin_epoch.request_to_wire(asked, cluster_id=CLUSTER, endpoints=())
    message.topics[0].topic_name = "orders"
    with pytest.raises(MeantForOthers) as refusal:
        begin_epoch.request_from_wire(message, cluster_id=CLUSTER, receiver_id=2)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_reply_with_an_error_as_a_whole_says_nothing() -> None:
    message = vote.reply_to_wire(VoteReply(epoch=EPOCH, leader_id=None, granted=True))
    message.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(UnusableReply, match="CLUSTER_AUTHORIZATION_FAILED"):
        vote.reply_from_wire(message)


def a_reply() -> FetchReply:
    return FetchReply(epoch=EPOCH, leader_id=NodeId(1), high_watermark=Offset(9))


def fetched_over_the_wire(reply: FetchReply, records: bytes) -> FetchReply:
    message = fetch.reply_to_wire(reply, records=records, log_start_offset=Offset(0))
    return fetch.reply_from_wire(over_the_wire(message))


def batch(offset: int, *, epoch: int, count: int = 1) -> bytes:
    records = [Record(None, b"value", timestamp_ms=0) for _ in range(count)]
    return bytes(build_batch(records, base_offset=Offset(offset), leader_epoch=LeaderEpoch(epoch)))
