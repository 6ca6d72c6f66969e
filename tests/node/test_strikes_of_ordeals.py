"""What the ordeals of real processes do to a cluster is what they say."""

import random

import pytest

from rig.failover.killed_node import cut_sessions, schedule
from rig.failover.network_ordeal import UNANSWERED_SECONDS, Cut, cut_off

NODE, OTHERS, CLIENTS = 2, (1, 3), 0
OUTWARDS, INWARDS = {(NODE, 1), (NODE, 3)}, {(1, NODE), (3, NODE)}
ANSWERED, ASKED = (NODE, CLIENTS), (CLIENTS, NODE)
LOST = {
    Cut.NODES: OUTWARDS | INWARDS,
    Cut.OUTWARDS: OUTWARDS,
    Cut.INWARDS: INWARDS,
    Cut.ALONE: OUTWARDS | INWARDS | {ANSWERED, ASKED},
    Cut.ANSWERS: OUTWARDS | INWARDS | {ANSWERED, ASKED},
}
DRAWN = sorted({one for one in schedule(1, kills=0, cuts=50) if isinstance(one, Cut)}, key=str)


class RecordedNetwork:
    """Notes what is lost, as (source, target), and how long was waited in between."""

    def __init__(self) -> None:
        self.lost: list[tuple[int, int]] = []
        self.lost_before: dict[float, set[tuple[int, int]]] = {}

    def cut(self, source: int, target: int) -> None:
        self.lost.append((source, target))

    def heal(self) -> None:
        self.lost.clear()

    def wait(self, seconds: float) -> None:
        self.lost_before[seconds] = set(self.lost)


@pytest.mark.parametrize("cut", DRAWN)
def test_each_kind_of_cut_that_is_drawn_loses_what_it_says(cut: Cut) -> None:
    network = RecordedNetwork()
    cut_off(network, cut, NODE, OTHERS, clients=CLIENTS, wait=network.wait)
    assert sorted(network.lost) == sorted(LOST[cut])
    first = {UNANSWERED_SECONDS: {ANSWERED}} if cut is Cut.ANSWERS else {}
    assert network.lost_before == first


def test_most_cuts_are_so_long_that_the_node_is_fenced_and_some_are_not() -> None:
    dice = random.Random(1)
    drawn = [cut_sessions(dice) for _ in range(1_000)]
    # In between nobody could say whether the session has ended.
    long, short = [one for one in drawn if one >= 1.2], [one for one in drawn if one <= 0.9]
    assert len(long) + len(short) == len(drawn)
    assert 700 < len(long) < 800
