"""A replica changes its directory when the copy has everything and the metadata know of it."""

import itertools

import pytest

from penstock.log.copying import CaughtUp, Copy, Cut, RaiseStart, Restart, Step
from penstock.model.offset import Offset
from penstock.replication.directory_move import Act, Fate, fate_of, next_act

FROM, TO = b"a" * 16, b"b" * 16


def act(
    step: Step, *, assigned: bytes = FROM, may_assign: bool = True, is_busy: bool = False
) -> Act:
    return next_act(step, assigned=assigned, target=TO, may_assign=may_assign, is_busy=is_busy)


@pytest.mark.parametrize(
    "step",
    [
        Copy(from_offset=Offset(3)),
        Cut(offset=Offset(3)),
        RaiseStart(offset=Offset(3)),
        Restart(offset=Offset(3)),
    ],
)
@pytest.mark.parametrize("assigned", [FROM, TO])
def test_a_copy_that_is_behind_is_continued_whatever_the_metadata_say(
    step: Step, assigned: bytes
) -> None:
    assert act(step, assigned=assigned) is Act.COPY
    assert act(step, assigned=assigned, may_assign=False, is_busy=True) is Act.COPY


def test_the_controller_is_told_before_the_directories_change() -> None:
    assert act(CaughtUp()) is Act.ASSIGN
    assert act(CaughtUp(), assigned=TO) is Act.SWAP


def test_a_replica_that_may_be_elected_by_its_directory_keeps_it_for_now() -> None:
    assert act(CaughtUp(), may_assign=False) is Act.WAIT
    assert act(CaughtUp(), assigned=TO, may_assign=False) is Act.SWAP


def test_a_current_log_that_is_being_changed_is_not_replaced() -> None:
    assert act(CaughtUp(), assigned=TO, is_busy=True) is Act.WAIT


def fate(
    *,
    is_replica: bool = True,
    has_current: bool = True,
    same_directory: bool = False,
    is_second: bool = False,
    is_assigned: bool = False,
    some_offline: bool = False,
) -> Fate:
    return fate_of(
        is_replica=is_replica,
        has_current=has_current,
        same_directory=same_directory,
        is_second=is_second,
        is_assigned=is_assigned,
        some_offline=some_offline,
    )


def test_a_move_is_resumed() -> None:
    assert fate() is Fate.RESUME
    assert fate(is_assigned=True) is Fate.RESUME
    assert fate(some_offline=True) is Fate.RESUME


def test_copies_that_nobody_needs_are_deleted() -> None:
    assert fate(is_replica=False) is Fate.DELETE
    assert fate(same_directory=True) is Fate.DELETE
    assert fate(is_second=True) is Fate.DELETE


def test_the_copy_stays_when_the_current_log_is_gone() -> None:
    """It is all that there is; it is used only where the metadata have the replica."""
    assert fate(has_current=False, some_offline=True) is Fate.LEAVE
    assert fate(has_current=False, is_assigned=True) is Fate.ADOPT
    assert fate(has_current=False) is Fate.SET_ASIDE


def test_the_last_copy_of_a_replica_is_never_deleted() -> None:
    for same, second, assigned, offline in itertools.product((False, True), repeat=4):
        assert (
            fate(
                has_current=False,
                same_directory=same,
                is_second=second,
                is_assigned=assigned,
                some_offline=offline,
            )
            is not Fate.DELETE
        )
