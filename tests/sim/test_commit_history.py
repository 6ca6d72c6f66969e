"""Which committed offsets a group may be found at: what is past does not come back unseen."""

from penstock.sim.commit_history import CommitHistory


def test_an_offset_that_was_never_answered_may_stand_until_it_is_settled() -> None:
    history = CommitHistory()
    history.ask(5, connection="one")
    assert history.may_be(None)
    assert history.may_be(5)
    history.ask(6, connection="two")
    history.ack(6)
    # The first connection may still bring it.
    assert history.may_be(5)
    assert not history.may_be(None)


def test_an_ack_is_the_end_of_what_went_by_its_connection_before() -> None:
    history = CommitHistory()
    history.ask(5, connection="one")
    history.ask(6, connection="one")
    history.ack(6)
    assert history.may_be(6)
    assert not history.may_be(5)


def test_after_a_restart_a_look_or_an_ack_is_the_end_of_what_was_unclear() -> None:
    for looks in (True, False):
        history = CommitHistory()
        history.ask(5, connection="one")
        history.ask(6, connection="two")
        history.restarted()
        assert history.may_be(5)
        assert history.may_be(6)
        if looks:
            history.look(6)
        else:
            history.ask(7, connection="three")
            history.ack(7)
        assert not history.may_be(5)
        assert not history.may_be(None)
        assert history.may_be(6) == looks


def test_what_was_read_stands() -> None:
    history = CommitHistory()
    history.ask(4, connection="one")
    history.ack(4)
    history.ask(5, connection="one")
    history.look(5)
    assert not history.may_be(4)
    assert history.may_be(5)


def test_an_ack_that_comes_after_the_end_of_its_node_settles_nothing() -> None:
    """The node may have let the older one overtake before it ended."""
    history = CommitHistory()
    history.ask(5, connection="one")
    history.ask(6, connection="two")
    history.restarted()
    history.ack(6)
    assert history.may_be(5)


def test_a_power_loss_brings_any_earlier_offset_back_until_one_is_read() -> None:
    history = CommitHistory()
    for offset in (1, 2, 3):
        history.ask(offset, connection="one")
        history.ack(offset)
    history.power_lost()
    assert all(history.may_be(offset) for offset in (None, 1, 2, 3))
    history.look(2)
    assert [offset for offset in (None, 1, 2, 3) if history.may_be(offset)] == [2]


def test_an_offset_asked_for_again_may_still_come_by_the_first_connection() -> None:
    history = CommitHistory()
    history.ask(5, connection="one")
    history.ask(5, connection="two")
    history.ack(5)
    history.ask(6, connection="two")
    history.ack(6)
    assert history.may_be(5)


def test_what_one_power_loss_left_may_be_what_the_next_one_leaves() -> None:
    """Seed 21146: an acked offset, another one after a power loss, and that one lost in turn."""
    history = CommitHistory()
    history.ask(10, connection="one")
    history.ack(10)
    history.restarted()
    history.power_lost()
    history.ask(12, connection="two")
    history.ack(12)
    history.restarted()
    history.power_lost()
    assert history.may_be(10)
    assert history.may_be(12)
