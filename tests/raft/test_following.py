"""A follower's fetch acks what it names, so it leaves after the sync; only its reply is used."""

import pytest

from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch, Offset
from penstock.raft.effects import AppendFetched, Committed, Sync
from penstock.raft.log_ends import LogEnds
from penstock.raft.messages import FetchReply, FetchRequest, Refused
from rig.replica import (
    TIMES,
    Lone,
    all_of,
    begin_epoch,
    end,
    fetched,
    follower,
    log_of,
    requests,
)


def test_next_fetch_leaves_after_the_log_is_synced() -> None:
    two = follower(2)
    (send,) = requests(two.effects, FetchRequest)
    effects = two.reply_to(send, fetched(1, 1, (1, 3)))
    assert [type(one) for one in effects if isinstance(one, AppendFetched | Sync)] == [
        AppendFetched,
        Sync,
    ]
    assert requests(effects, FetchRequest) == []
    (again,) = requests(two.sync(), FetchRequest)
    assert isinstance(again.request, FetchRequest)
    assert again.request.log_end == end(1, 3)


@pytest.mark.parametrize("leader", [None, 1])
def test_replica_that_looks_for_the_leader_syncs_first_what_it_found_on_disk(
    leader: int | None,
) -> None:
    # A process was killed, and its log was never synced. The leader may receive this fetch.
    two = Lone(2, epoch=1, leader=leader, log=log_of(1, 1, synced=0))
    assert requests(two.effects, FetchRequest) == []
    assert all_of(two.effects, Sync) == [Sync()]
    assert two.replica.next_deadline_ms() == two.replica.state.role.elect_ms  # type: ignore[union-attr]
    asked = requests(two.sync(), FetchRequest)
    assert [send.to for send in asked] == [1, 3]


def test_watermark_of_a_follower_ends_with_its_log() -> None:
    two = follower(2)
    (send,) = requests(two.effects, FetchRequest)
    effects = two.reply_to(send, fetched(1, 1, (1, 3), watermark=10))
    assert [one.offset for one in all_of(effects, Committed)] == [3]


def test_reply_to_an_earlier_fetch_is_dropped() -> None:
    two = follower(2)
    (first,) = requests(two.effects, FetchRequest)
    two.fail(first)
    (second,) = requests(two.tick(TIMES.retry_backoff_ms), FetchRequest)
    assert two.reply_to(first, fetched(1, 1, (1, 3))) == []
    assert all_of(two.reply_to(second, fetched(1, 1, (1, 2))), AppendFetched)
    assert two.replica.state.log.last == end(1, 2)


def test_reply_of_an_earlier_leader_is_dropped() -> None:
    two = follower(2)
    (send,) = requests(two.effects, FetchRequest)
    two.receive(begin_epoch(2, 3, to=2))
    assert all_of(two.reply_to(send, fetched(1, 1, (1, 3))), AppendFetched) == []
    assert two.replica.state.log.last == end(0, 0)


def test_broken_connection_to_an_ended_leader_shortens_the_wait_once() -> None:
    two = follower(2)
    (send,) = requests(two.effects, FetchRequest)
    two.reply_to(send, fetched(1, 1))
    two.refuse(1)
    due_ms = two.replica.next_deadline_ms()
    assert due_ms is not None
    assert due_ms < 50
    two.wait_until_due()
    assert two.role == "prospective"
    # Nobody would vote: the leader is followed again, and its next refusal shortens nothing.
    two.wait_until_due()
    assert two.role == "follower"
    until_ms = two.replica.state.role.deadline_ms  # type: ignore[union-attr]
    two.refuse(1)
    assert two.replica.state.role.deadline_ms == until_ms  # type: ignore[union-attr]
    assert until_ms >= two.now_ms + TIMES.election_timeout_ms


def test_leader_that_says_it_leads_no_more_shortens_the_wait() -> None:
    two = follower(2)
    (send,) = requests(two.effects, FetchRequest)
    reply = FetchReply(
        epoch=LeaderEpoch(1),
        leader_id=None,
        high_watermark=Offset(0),
        error=Refused.NOT_LEADER,
    )
    two.reply_to(send, reply)
    two.tick(50)
    assert two.role == "prospective"


def test_third_node_names_the_leader() -> None:
    two = Lone(2, epoch=1)
    asked = requests(two.effects, FetchRequest)
    told = FetchReply(
        epoch=LeaderEpoch(4),
        leader_id=NodeId(1),
        high_watermark=Offset(0),
        error=Refused.FENCED_LEADER_EPOCH,
    )
    effects = two.reply_to(asked[1], told)
    (send,) = requests(effects, FetchRequest)
    assert (send.to, two.role, two.replica.epoch) == (1, "follower", 4)


def test_log_that_is_newer_than_the_quorum_state_sets_the_epoch() -> None:
    log: LogEnds = log_of(3, 7)
    two = Lone(2, epoch=0, log=log)
    assert two.replica.epoch == 7
