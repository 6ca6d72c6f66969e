"""A voter is a node with one directory: a replaced disk has forgotten its votes (KIP-853)."""

from penstock.model.identity import NodeId
from penstock.model.offset import Offset
from penstock.raft.effects import Persist
from penstock.raft.messages import BeginEpochReply, Refused, VoteReply, VoteRequest
from penstock.raft.voters import ReplicaKey
from rig.replica import Lone, all_of, begin_epoch, end, fetch, key, leader, requests, vote

ANOTHER = b"another directory"[:16]


def test_vote_meant_for_another_directory_is_refused() -> None:
    two = Lone(2)
    request = vote(5, 3, to=2)
    request.voter = ReplicaKey(NodeId(2), ANOTHER)
    reply = two.ask(request)
    assert isinstance(reply, VoteReply)
    assert (reply.granted, reply.error) == (False, Refused.INVALID_VOTER_KEY)
    assert all_of(two.effects, Persist) == []


def test_vote_meant_for_another_node_is_refused() -> None:
    reply = Lone(2).ask(vote(5, 3, to=1))
    assert reply.error is Refused.INVALID_VOTER_KEY


def test_begin_epoch_meant_for_another_directory_is_refused() -> None:
    two = Lone(2)
    request = begin_epoch(5, 1, to=2)
    request.voter = ReplicaKey(NodeId(2), ANOTHER)
    reply = two.ask(request)
    assert isinstance(reply, BeginEpochReply)
    assert reply.error is Refused.INVALID_VOTER_KEY
    assert two.role == "unattached"


def test_voter_whose_disk_was_replaced_counts_as_a_refusal() -> None:
    one = Lone(1, voters=3)
    one.wait_until_due()
    sends = requests(one.effects, VoteRequest)
    for send in sends:
        refusal = Refused.INVALID_VOTER_KEY
        reply = VoteReply(epoch=one.replica.epoch, leader_id=None, granted=False, error=refusal)
        one.reply_to(send, reply)
    assert one.role == "unattached"


def test_fetch_of_another_directory_of_a_voter_commits_nothing() -> None:
    one = leader(1)
    one.sync()
    request = fetch(1, 2, end(1, 1))
    request.replica = ReplicaKey(NodeId(2), ANOTHER)
    one.receive(request)
    assert one.replica.high_watermark == 0
    one.receive(fetch(1, 2, end(1, 1)))
    assert one.replica.high_watermark == 1


def test_replica_with_another_directory_than_the_voters_never_stands() -> None:
    two = Lone(2)
    two.replica.state.key = ReplicaKey(NodeId(2), ANOTHER)
    assert not two.replica.state.is_voter


def test_with_kraft_version_0_ids_alone_count() -> None:
    one = leader(1, with_directories=False)
    one.sync()
    request = fetch(1, 2, end(1, 1))
    request.replica = ReplicaKey(NodeId(2), ANOTHER)
    one.receive(request)
    assert one.replica.high_watermark == Offset(1)


def test_with_kraft_version_0_votes_are_asked_without_directory_ids() -> None:
    one = Lone(1, voters=3, with_directories=False)
    one.wait_until_due()
    asked = [send.request for send in requests(one.effects, VoteRequest)]
    assert [one.voter for one in asked if isinstance(one, VoteRequest)] == [
        ReplicaKey(NodeId(2), None),
        ReplicaKey(NodeId(3), None),
    ]
    two = Lone(2, with_directories=False)
    request = vote(5, 3, to=2)
    request.voter = ReplicaKey(NodeId(2), None)
    reply = two.ask(request)
    assert isinstance(reply, VoteReply)
    assert reply.granted
    assert two.replica.state.voted == key(3)
