"""Schedules for the world of the sink: who does the next step, who dies, who comes back."""

from random import Random

from penstock.spark.sink.decision import Prepared
from penstock.spark.sink.errors import (
    BatchGivenUp,
    Contended,
    LostTransaction,
    OlderBatch,
    SinkError,
    Superseded,
    TransactionTimedOut,
)
from rig.sink_world import PARTITIONS, PARTS, SinkWorld

BATCHES = 4
STEPS_MAX = 5_000


def settle(world: SinkWorld) -> None:
    """Lets all who live go on to their end, and then a last driver, which is alone."""
    let_end(world)
    world.check_left()
    world.failing = world.losses = 0
    world.batches += 1
    world.start_driver()
    let_end(world)


def let_end(world: SinkWorld) -> None:
    """Lets all who live go on to their end."""
    steps = 0
    while world.drivers or world.tasks:
        for name in [*world.drivers, *world.tasks]:
            if name in world.drivers or name in world.tasks:
                world.step(name)
                steps += 1
        assert steps < STEPS_MAX, "somebody never ends"


def unexpected(world: SinkWorld) -> list[SinkError]:
    """A driver that met another, or comes after it, may have to stop; nothing is lost by it."""
    stopped = Superseded | Contended | OlderBatch | BatchGivenUp
    return [one for one in world.errors if not isinstance(one, stopped)]


def all_step(world: SinkWorld, run: str, *, times: int) -> None:
    """One driver and all tasks, in turns."""
    for _ in range(times):
        for name in [*([run] if run in world.drivers else []), *world.tasks]:
            if name in world.drivers or name in world.tasks:
                world.step(name)


def explore(seed: int, *, two_phase: bool, foreign: bool = False) -> SinkWorld:
    """Drivers are killed, stopped, left behind and started anew; tasks fail, are doubled, are slow
    and outlive their driver; answers are lost: in an order that the dice find. Checked when at
    rest. `foreign`: somebody else takes ids of the sink over, and what is lost by it is told.
    """
    dice = Random(seed)
    world = SinkWorld(dice, two_phase=two_phase, batches=BATCHES)
    world.losses, world.failing = dice.randrange(4), dice.randrange(6)
    starts = dice.randrange(1, 4)
    unrest = dice.choice((0.001, 0.005, 0.03))
    slow: dict[str, bool] = {}
    world.start_driver()
    while world.drivers or world.tasks:
        if starts and dice.random() < unrest:
            starts -= 1
            world.start_driver()
        if world.drivers and dice.random() < unrest / 3:
            world.kill(dice.choice(list(world.drivers)))
        if world.drivers and dice.random() < unrest / 3:
            world.stopped.add(dice.choice(list(world.drivers)))
        if world.drivers and dice.random() < unrest:
            world.idle(dice.choice(list(world.drivers)))
        if foreign and world.cluster.ids and dice.random() < unrest:
            world.cluster.fence(dice.choice(list(world.cluster.ids)))
        actors = [*world.drivers, *world.tasks]
        if actors:
            chosen = dice.choice(actors)
            if not slow.setdefault(chosen, dice.random() < 0.25) or dice.random() < 0.02:
                world.step(chosen)
    settle(world)
    told = any(isinstance(one, LostTransaction) for one in world.errors)
    assert told == bool(world.cluster.lost), (seed, world.cluster.lost, world.errors)
    if not foreign:
        assert not told, (seed, world.cluster.lost)
        assert unexpected(world) == [], seed
    if not told:
        world.check()
        # One that is taken over before the decision is found out then, and the batch repeated.
        ended = [one for one in unexpected(world) if not isinstance(one, TransactionTimedOut)]
        assert ended == [], seed
    return world


def explore_given_up(seed: int, *, two_phase: bool) -> SinkWorld:
    """A batch is given up while its tasks write; they go on, and nobody else comes."""
    dice = Random(seed)
    world = SinkWorld(dice, two_phase=two_phase, batches=1)
    run = world.start_driver()
    while world.cluster.last is None:  # before the claim nobody writes, nor afterwards then
        all_step(world, run, times=1)
    all_step(world, run, times=dice.randrange(20))
    if run in world.drivers:
        world.fail(run)
        let_end(world)
        last = world.cluster.last
        decided = None if last is None else last.unfinished
        left = world.cluster.open_ids()
        # What was decided before is for the next run to complete.
        assert all(decided is not None and decided.names(one) for one in left), (seed, left)
    return world


def explore_reused_id() -> SinkWorld:
    """A driver dies when its decision is carried out and not yet DONE; a slow task of two batches
    ago then begins to write under an id that the decision names.
    """
    world = SinkWorld(Random(1), two_phase=True, batches=1)
    run = world.start_driver()
    while len(world.cluster.committed) < PARTITIONS * PARTS:
        all_step(world, run, times=1)
    last = world.cluster.last
    assert last is not None
    assert last.unfinished is not None
    world.kill(run)
    late = world.cluster.take_over(last.unfinished.transactions[0].transactional_id)
    assert isinstance(late, Prepared)
    assert world.cluster.write(late, (0, 0, 0))
    settle(world)
    world.check()
    return world
