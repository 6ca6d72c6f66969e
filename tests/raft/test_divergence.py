"""Logs that differ: the leader says where its log of that epoch ended, the follower truncates to
the smaller end of both (KIP-595).
"""

from penstock.raft.effects import AnswerFetch, Truncate
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import FetchReply, FetchRequest, Refused
from rig.replica import all_of, end, fetch, fetched, follower, leader, log_of, requests


def truncated(own: tuple[int, ...], leader_end: LogEnd) -> list[int]:
    """Where a follower with this log truncates it when the leader names this end."""
    two = follower(2, epoch=9, log=log_of(*own))
    (send,) = requests(two.effects, FetchRequest)
    reply = fetched(9, 1)
    reply.diverging = leader_end
    return [one.offset for one in all_of(two.reply_to(send, reply), Truncate)]


def diverging(at: LogEnd) -> LogEnd | None:
    """What a leader with epochs 1, 1, 3, 3, 9 replies to a fetch."""
    one = leader(1, epoch=8, log=log_of(1, 1, 3, 3))
    reply = one.ask(fetch(9, 2, at))
    assert isinstance(reply, FetchReply)
    return reply.diverging


def test_leader_names_the_end_of_the_largest_epoch_not_above_the_followers() -> None:
    assert diverging(end(2, 3)) == end(1, 2)


def test_leader_names_the_end_of_the_epoch_if_the_followers_is_beyond_it() -> None:
    assert diverging(end(1, 3)) == end(1, 2)


def test_logs_that_agree_do_not_diverge() -> None:
    for at in (end(0, 0), end(1, 1), end(1, 2), end(3, 3), end(3, 4)):
        assert diverging(at) is None


def test_diverging_fetch_acks_nothing() -> None:
    one = leader(1)
    one.sync()
    one.receive(fetch(1, 2, end(1, 5)))
    assert one.replica.high_watermark == 0


def test_follower_truncates_to_the_leaders_end_of_the_epoch() -> None:
    assert truncated((1, 1, 1, 1), end(1, 2)) == [2]


def test_follower_truncates_to_its_own_end_of_the_epoch_where_that_is_smaller() -> None:
    assert truncated((1, 1, 2, 2), end(1, 3)) == [2]


def test_follower_without_that_epoch_truncates_to_the_end_of_the_one_below() -> None:
    assert truncated((1, 3, 3), end(2, 9)) == [1]


def test_follower_fetches_from_the_end_it_truncated_to() -> None:
    two = follower(2, epoch=9, log=log_of(1, 1, 2, 2))
    (send,) = requests(two.effects, FetchRequest)
    reply = fetched(9, 1)
    reply.diverging = end(1, 9)
    (again,) = requests(two.reply_to(send, reply), FetchRequest)
    assert isinstance(again.request, FetchRequest)
    assert again.request.log_end == end(1, 2)


def test_fetch_from_before_the_log_is_an_invalid_request() -> None:
    one = leader(1)
    for at in (end(0, -1), end(-1, 0)):
        reply = one.ask(fetch(1, 2, at))
        assert reply.error is Refused.INVALID_REQUEST
        assert all_of(one.effects, AnswerFetch) == []
