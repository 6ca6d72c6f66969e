"""With fixed voters, whoever stands or leads without being one of them is refused."""

import pytest

from penstock.raft.effects import Persist
from penstock.raft.messages import Refused, VoteReply, VoteRequest
from rig.replica import Lone, all_of, begin_epoch, end_epoch, requests, vote


@pytest.mark.parametrize(
    "request_of_four",
    [
        vote(8, 4, to=1),
        vote(8, 4, to=1, pre_vote=True),
        begin_epoch(8, 4, to=1),
        end_epoch(8, 4),
    ],
    ids=["vote", "pre-vote", "begin epoch", "end epoch"],
)
def test_a_node_that_is_no_voter_changes_nothing(request_of_four: VoteRequest) -> None:
    one = Lone(1, with_directories=False, epoch=7)
    assert one.ask(request_of_four).error is Refused.INCONSISTENT_VOTER_SET
    assert (one.role, one.replica.epoch) == ("unattached", 7)
    assert all_of(one.effects, Persist) == []


def test_voters_that_are_in_the_log_may_have_changed_since() -> None:
    one = Lone(1, epoch=7)
    assert one.ask(begin_epoch(8, 4, to=1)).error is None
    assert one.replica.epoch == 8


def test_a_candidate_that_is_no_voter_elsewhere_has_lost() -> None:
    one = Lone(1, with_directories=False)
    one.wait_until_due()
    for send in requests(one.effects, VoteRequest):
        refusal = Refused.INCONSISTENT_VOTER_SET
        reply = VoteReply(epoch=one.replica.epoch, leader_id=None, granted=False, error=refusal)
        one.reply_to(send, reply)
    assert one.role == "unattached"
