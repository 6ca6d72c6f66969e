"""DescribeQuorum, and the requests of other replicas, on a node that is a quorum alone."""

from contextlib import suppress

import pytest

from penstock.broker.api.describe_quorum import API as DESCRIBE_QUORUM
from penstock.broker.api.vote import API as VOTE
from penstock.broker.controller.metadata_journal import MetadataJournal
from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import HardState
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import VoteRequest as RaftVoteRequest
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form import vote
from penstock.wire.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    QuorumPartition,
)
from penstock.wire.messages.vote import VoteResponse
from penstock.world.errors import DiskError
from rig.control import CLUSTER_ID, NODE, Control, run_with
from rig.memory_disk import MemoryDisk


async def describe(control: Control, topic: str = METADATA_TOPIC) -> QuorumPartition:
    asked = DescribeQuorumTopic(
        topic_name=topic, partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    reply = await control.ask(
        DESCRIBE_QUORUM, DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse
    )
    assert reply.error_code == ErrorCode.NONE
    return reply.topics[0].partitions[0]


def test_a_sole_voter_leads_and_has_committed_everything() -> None:
    async def scenario(control: Control) -> None:
        quorum = await describe(control)
        assert quorum.error_code == ErrorCode.NONE
        assert (quorum.leader_id, quorum.leader_epoch) == (NODE, 1)
        assert quorum.high_watermark == control.log.end_offset
        [voter] = quorum.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (NODE, control.log.end_offset)
        assert quorum.observers == []

    run_with(MemoryDisk(), scenario)


def test_the_epoch_grows_with_each_start() -> None:
    disk = MemoryDisk()

    async def epoch(control: Control) -> int:
        return (await describe(control)).leader_epoch

    assert [run_with(disk, epoch) for _ in range(3)] == [1, 2, 3]


def test_another_topic_has_no_quorum() -> None:
    async def scenario(control: Control) -> None:
        refused = await describe(control, "orders")
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_with(MemoryDisk(), scenario)


def test_a_vote_of_another_cluster_is_refused() -> None:
    async def scenario(control: Control) -> None:
        asked = RaftVoteRequest(
            epoch=LeaderEpoch(9),
            candidate=ReplicaKey(NodeId(2), b"e" * 16),
            voter=ReplicaKey(NODE, None),
            log_end=LogEnd(LeaderEpoch(8), Offset(100)),
            pre_vote=False,
        )
        foreign = vote.request_to_wire(asked, cluster_id="another")
        reply = await control.ask(VOTE, foreign, VoteResponse)
        assert reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert (await describe(control)).leader_epoch == 1

    run_with(MemoryDisk(), scenario)


def test_a_vote_that_could_not_be_stored_is_never_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica has voted in memory; asked again, it must not say so. Only voters are heard: the
    candidate is another process with this one's id.
    """
    asked = RaftVoteRequest(
        epoch=LeaderEpoch(9),
        candidate=ReplicaKey(NODE, b"e" * 16),
        voter=ReplicaKey(NODE, None),
        log_end=LogEnd(LeaderEpoch(8), Offset(100)),
        pre_vote=False,
    )

    async def scenario(control: Control) -> None:
        def fail(journal: MetadataJournal, state: HardState) -> None:
            raise DiskError("/data", "the disk is gone")

        monkeypatch.setattr(MetadataJournal, "persist", fail)
        for _ in range(2):  # whoever ends the node by it says why
            with pytest.raises(DiskError, match="the disk is gone"):
                control.controller.quorum.receive(asked)
        monkeypatch.undo()
        await control.sever()

    disk = MemoryDisk()
    with suppress(DiskError):  # such a node does not stop cleanly
        run_with(disk, scenario)
    assert b'"leaderEpoch":9' not in disk.read("/data/__cluster_metadata-0/quorum-state")


def test_a_leader_gives_no_pre_vote() -> None:
    async def scenario(control: Control) -> None:
        asked = RaftVoteRequest(
            epoch=LeaderEpoch(1),
            candidate=ReplicaKey(NodeId(2), b"e" * 16),
            voter=ReplicaKey(NODE, None),
            log_end=LogEnd(LeaderEpoch(1), Offset(100)),
            pre_vote=True,
        )
        message = vote.request_to_wire(asked, cluster_id=CLUSTER_ID)
        reply = vote.reply_from_wire(await control.ask(VOTE, message, VoteResponse))
        assert not reply.granted
        assert (reply.leader_id, reply.epoch) == (NODE, 1)

    run_with(MemoryDisk(), scenario)
