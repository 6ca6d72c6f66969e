"""Deadlines of different kinds are different, whoever they are about."""

from itertools import combinations

from penstock.groups.timers import (
    JoinEnds,
    MemberJoinEnds,
    MemberSyncEnds,
    OffsetsExpire,
    PendingMemberEnds,
    RevocationEnds,
    SessionEnds,
    SyncEnds,
    TimerKey,
)
from penstock.machine.deadlines import Deadlines


def test_no_two_kinds_of_deadline_are_taken_for_each_other() -> None:
    of_members = (SessionEnds, PendingMemberEnds, RevocationEnds, MemberJoinEnds, MemberSyncEnds)
    keys: list[TimerKey] = [
        OffsetsExpire(),
        JoinEnds(group="g"),
        SyncEnds(group="g"),
        *(kind(group="g", member="m") for kind in of_members),
    ]
    assert all(one != other for one, other in combinations(keys, 2))
    deadlines: Deadlines[TimerKey] = Deadlines()
    for key in keys:
        deadlines.set(key, 1)
    assert len(deadlines) == len(keys)
