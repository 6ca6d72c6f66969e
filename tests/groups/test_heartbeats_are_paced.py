"""Members are told to come soon while something is handed over, and seldom on a crowded node."""

from dataclasses import replace

import pytest

from penstock.groups.consumer.heartbeat_interval import heartbeat_interval_ms
from penstock.groups.decision_context import DecisionContext
from rig.group_world import GroupWorld


def context(members: int, **settings: str) -> DecisionContext:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return replace(GroupWorld(given).context(), members_on_node=members)


def test_a_group_that_hands_over_is_told_to_come_within_a_tenth_of_a_second() -> None:
    assert heartbeat_interval_ms("g", is_settled=False, context=context(10)) <= 100


def test_a_small_group_at_rest_is_told_half_a_second_at_most() -> None:
    assert 100 < heartbeat_interval_ms("g", is_settled=True, context=context(10)) <= 500


@pytest.mark.parametrize("members", [1, 10, 500, 2000, 5000])
@pytest.mark.parametrize("is_settled", [True, False])
def test_all_members_together_send_a_thousand_a_second_at_most(
    members: int, is_settled: bool
) -> None:
    interval_ms = heartbeat_interval_ms("g", is_settled=is_settled, context=context(members))
    assert members * 1000 / interval_ms <= 1000
    assert interval_ms <= 5000


def test_the_default_is_never_exceeded_however_many_members_there_are() -> None:
    assert heartbeat_interval_ms("g", is_settled=True, context=context(100_000)) == 5000


def test_what_is_set_is_told_as_it_is() -> None:
    given = context(10, group_consumer_heartbeat_interval_ms="5000")
    assert heartbeat_interval_ms("g", is_settled=False, context=given) == 5000


def test_a_session_has_room_for_three_heartbeats() -> None:
    given = context(5000, group_consumer_session_timeout_ms="3000")
    assert heartbeat_interval_ms("g", is_settled=True, context=given) == 1000
