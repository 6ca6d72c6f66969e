"""The high watermark moves over what a majority has on disk, if that ends with a record of the
leader's own epoch (Raft, figure 8).
"""

from penstock.raft.effects import AnswerFetch, AppendLeaderChange, Became, Committed, Persist, Sync
from penstock.raft.messages import FetchReply
from rig.replica import Lone, all_of, end, fetch, leader, log_of, replies


def test_leader_begins_its_epoch_with_a_leader_change_record() -> None:
    one = leader(1, epoch=4, log=log_of(1, 4))
    kinds = [type(effect) for effect in one.effects[:4]]
    assert kinds == [Persist, Became, AppendLeaderChange, Sync]
    (change,) = all_of(one.effects, AppendLeaderChange)
    assert (change.epoch, change.granting) == (5, (1, 2))
    assert one.replica.state.log.last == end(5, 3)


def test_records_of_earlier_epochs_are_not_committed_by_counting_copies() -> None:
    one = leader(1, epoch=4, log=log_of(1, 4))
    one.sync()
    one.receive(fetch(5, 2, end(4, 2)))
    one.receive(fetch(5, 3, end(4, 2)))
    assert one.replica.high_watermark == 0


def test_records_of_earlier_epochs_are_committed_with_the_first_one_of_the_own_epoch() -> None:
    one = leader(1, epoch=4, log=log_of(1, 4))
    one.sync()
    effects = one.receive(fetch(5, 2, end(5, 3)))
    assert [effect.offset for effect in all_of(effects, Committed)] == [3]


def test_leader_counts_itself_only_as_far_as_its_own_log_is_durable() -> None:
    one = leader(1)
    one.receive(fetch(1, 2, end(1, 1)))
    assert one.replica.high_watermark == 0
    one.sync()
    assert one.replica.high_watermark == 1


def test_two_followers_commit_what_the_leader_has_not_synced() -> None:
    one = leader(1)
    one.receive(fetch(1, 2, end(1, 1)))
    one.receive(fetch(1, 3, end(1, 1)))
    assert one.replica.high_watermark == 1


def test_five_voters_need_three() -> None:
    one = leader(1, voters=5)
    one.sync()
    one.receive(fetch(1, 2, end(1, 1)))
    assert one.replica.high_watermark == 0
    one.receive(fetch(1, 3, end(1, 1)))
    assert one.replica.high_watermark == 1


def test_observer_commits_nothing() -> None:
    one = leader(1)
    one.sync()
    one.receive(fetch(1, 9, end(1, 1)))
    assert one.replica.high_watermark == 0


def test_fetch_that_was_delayed_does_not_move_the_watermark_back() -> None:
    one = leader(1)
    one.append()
    one.sync()
    one.receive(fetch(1, 2, end(1, 2)))
    one.receive(fetch(1, 2, end(1, 1)))
    assert one.replica.high_watermark == 2


def waiting_follower(watermark: int | None) -> Lone:
    """A leader with the fetch of node 2 waiting; node 3 is about to commit the first record."""
    one = leader(1)
    one.append()
    one.receive(fetch(1, 2, end(1, 2), watermark=watermark, wait_ms_max=500))
    assert replies(one.effects) == []
    return one


def test_new_watermark_is_sent_at_once_to_a_follower_that_names_an_older_one() -> None:
    one = waiting_follower(watermark=0)
    (sent,) = all_of(one.sync(), AnswerFetch)
    assert sent.reply.high_watermark == 2


def test_follower_that_names_no_watermark_waits_for_records() -> None:
    one = waiting_follower(watermark=None)
    assert replies(one.sync()) == []
    (reply,) = replies(one.tick(one.now_ms + 500))
    assert isinstance(reply, FetchReply)
    assert reply.high_watermark == 2


def test_waiting_fetch_is_answered_when_a_record_is_appended() -> None:
    one = waiting_follower(watermark=0)
    (sent,) = all_of(one.append(), AnswerFetch)
    assert sent.from_offset == 2
