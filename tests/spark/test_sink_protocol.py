"""The exactly-once sink in a small world, where everyone may die at every step."""

from random import Random

import pytest

from penstock.spark.sink.errors import LostTransaction, TransactionTimedOut
from rig.sink_schedules import (
    BATCHES,
    STEPS_MAX,
    all_step,
    explore,
    explore_given_up,
    explore_reused_id,
    let_end,
    settle,
    unexpected,
)
from rig.sink_world import PARTITIONS, PARTS, SinkWorld

SCHEDULES = 400


def test_without_trouble_every_row_is_there_once() -> None:
    world = SinkWorld(Random(0), two_phase=True, batches=BATCHES)
    world.start_driver()
    settle(world)
    world.check()
    assert world.errors == []
    assert world.finished


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("tasks_die", [True, False])
@pytest.mark.parametrize("sleeps", [True, False])
def test_driver_that_dies_or_sleeps_at_any_step(
    two_phase: bool, tasks_die: bool, sleeps: bool
) -> None:
    """One that sleeps wakes up when its successor has come any number of steps further."""
    wakes = range(0, 40, 5) if sleeps else range(1)
    for step in range(STEPS_MAX):
        ran = [run_until(step, after, two_phase, tasks_die, sleeps=sleeps) for after in wakes]
        if not all(ran):
            break
    assert 20 < step < STEPS_MAX - 1, "how far the driver came"


def run_until(
    step: int, wakes_after: int, two_phase: bool, tasks_die: bool, *, sleeps: bool
) -> bool:
    """False when the driver had ended by that step."""
    world = SinkWorld(Random(step), two_phase=two_phase, batches=BATCHES)
    first = world.start_driver()
    all_step(world, first, times=step)
    if first not in world.drivers:
        return False
    asleep = world.drivers.pop(first)
    if not sleeps:
        world.killed.add(first)
    sleeping_tasks = dict(world.tasks)
    world.tasks.clear()
    all_step(world, world.start_driver(), times=wakes_after)
    if sleeps:
        world.drivers[first] = asleep
    if not tasks_die:
        world.tasks.update(sleeping_tasks)
    settle(world)
    world.check()
    assert unexpected(world) == []
    return True


@pytest.mark.parametrize("two_phase", [True, False])
def test_any_order_of_steps_of_anyone(two_phase: bool) -> None:
    met = sum(len(explore(seed, two_phase=two_phase).errors) for seed in range(SCHEDULES))
    assert met > 30, "drivers hardly ever met"


@pytest.mark.parametrize("two_phase", [True, False])
def test_decided_rows_are_never_lost_in_silence_when_somebody_takes_ids_over(
    two_phase: bool,
) -> None:
    worlds = [explore(seed, two_phase=two_phase, foreign=True) for seed in range(SCHEDULES)]
    assert sum(bool(world.cluster.lost) for world in worlds) > 2, "hardly anything was lost"
    assert sum(not world.cluster.lost for world in worlds) > 10


@pytest.mark.parametrize("two_phase", [True, False])
def test_query_that_is_stopped_at_any_step_leaves_nothing_open(two_phase: bool) -> None:
    """And nobody comes afterwards to clear up."""
    for step in range(STEPS_MAX):
        world = SinkWorld(Random(step), two_phase=two_phase, batches=2)
        first = world.start_driver()
        all_step(world, first, times=step)
        if first not in world.drivers:
            break
        world.stopped.add(first)
        let_end(world)
        assert world.cluster.open_ids() == ()
        assert world.cluster.last is None or world.cluster.last.unfinished is None
        settle(world)
        world.check()
        assert unexpected(world) == []
    assert 20 < step < STEPS_MAX - 1, "how far the driver came"


@pytest.mark.parametrize("two_phase", [True, False])
def test_tasks_that_write_when_their_batch_is_given_up_end_what_they_wrote(
    two_phase: bool,
) -> None:
    for seed in range(SCHEDULES):
        explore_given_up(seed, two_phase=two_phase)


@pytest.mark.parametrize("two_phase", [True, False])
def test_attempts_that_outlive_a_driver_end_what_they_wrote(two_phase: bool) -> None:
    """It is killed when it has cleared up for the last time, and no other one comes."""
    outlived = 0
    for seed in range(100):
        dice = Random(seed)
        world = SinkWorld(dice, two_phase=two_phase, batches=1)
        run = world.start_driver()
        while not world.finished:
            ready = [run, *(name for name in world.tasks if dice.random() < 0.15)]
            for name in ready:
                if name in world.drivers or name in world.tasks:
                    world.step(name)
        world.kill(run)
        outlived += bool(world.tasks)
        let_end(world)
        assert world.cluster.open_ids() == ()
    assert outlived > 5


def test_decided_transaction_that_timed_out_is_an_error_and_never_silence() -> None:
    lost = 0
    for step in range(1, 60):
        world = SinkWorld(Random(1), two_phase=False, batches=1)
        first = world.start_driver()
        all_step(world, first, times=step)
        if first not in world.drivers:
            break
        world.kill(first)
        last = world.cluster.last
        decided = last is not None and last.unfinished is not None
        whole = len(world.cluster.committed) == PARTITIONS * PARTS
        world.cluster.time_out()
        settle(world)
        kinds = {type(error) for error in world.errors}
        if decided and not whole:
            assert kinds == {LostTransaction}
            lost += 1
        else:
            assert kinds == set()
            world.check()
    assert lost == PARTITIONS, "before the first is committed, and before each other one"


def test_batch_whose_transactions_time_out_before_its_decision_is_repeated() -> None:
    timed_out = lost = 0
    for step in range(1, 60):
        world = SinkWorld(Random(1), two_phase=False, batches=1)
        first = world.start_driver()
        all_step(world, first, times=step)
        if first not in world.drivers:
            break
        world.cluster.time_out_undecided()
        settle(world)
        kinds = {type(error) for error in world.errors}
        if LostTransaction in kinds:
            lost += 1
            continue
        assert kinds <= {TransactionTimedOut}
        timed_out += len(kinds)
        world.check()
    assert timed_out > PARTITIONS
    assert lost <= 1, "between the last look and the decision"


def test_two_phase_transactions_outlast_every_time_out() -> None:
    for step in range(1, 60):
        world = SinkWorld(Random(step), two_phase=True, batches=2)
        first = world.start_driver()
        all_step(world, first, times=step)
        if first in world.drivers:
            world.kill(first)
        world.cluster.time_out()
        settle(world)
        world.check()
        assert unexpected(world) == []


def test_what_a_late_task_writes_under_a_decided_id_is_not_taken_for_the_batch() -> None:
    world = explore_reused_id()
    assert world.errors == []
