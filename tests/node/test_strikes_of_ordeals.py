"""What the ordeals of real processes do to a cluster is what they say."""

import random

from rig.failover.killed_node import cut_sessions


def test_most_cuts_are_so_long_that_the_node_is_fenced_and_some_are_not() -> None:
    dice = random.Random(1)
    drawn = [cut_sessions(dice) for _ in range(1_000)]
    # In between nobody could say whether the session has ended.
    long, short = [one for one in drawn if one >= 1.2], [one for one in drawn if one <= 0.9]
    assert len(long) + len(short) == len(drawn)
    assert 700 < len(long) < 800
