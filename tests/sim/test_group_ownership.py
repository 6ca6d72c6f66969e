"""A partition that two members of a group hold in one epoch is noticed, and nothing else is."""

import pytest

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import TopicPartition
from penstock.sim.cluster.group_members import Claim, Ownership
from penstock.sim.cluster.history import ClusterHistory
from penstock.sim.errors import Violation

PLACE = TopicPartition("orders", 0)
ONE = Claim(client="member-0", member_id="a")
OTHER = Claim(client="member-1", member_id="b")


def test_two_owners_in_one_epoch_are_a_violation() -> None:
    ownership = Ownership(ClusterHistory())
    ownership.claimed("group", 3, PLACE, ONE)
    with pytest.raises(Violation, match="two owners: orders-0 belongs to member-0"):
        ownership.claimed("group", 3, PLACE, OTHER)


def test_an_owner_may_be_told_again_and_another_one_follow_in_another_epoch() -> None:
    ownership = Ownership(ClusterHistory())
    for epoch, claim in ((3, ONE), (3, ONE), (4, OTHER), (5, ONE)):
        ownership.claimed("group", epoch, PLACE, claim)
    ownership.claimed("another", 3, PLACE, OTHER)
    assert ownership.claims == 5


def test_nothing_is_required_once_the_journal_of_groups_may_be_gone() -> None:
    history = ClusterHistory()
    ownership = Ownership(history)
    ownership.claimed("group", 3, PLACE, ONE)
    history.may_have_lost.add(TopicPartition(OFFSETS_TOPIC, 1))
    ownership.claimed("group", 3, PLACE, OTHER)
    assert ownership.claims == 1, "the second claim is not judged"
