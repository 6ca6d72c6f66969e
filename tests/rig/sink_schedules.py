"""Schedules for the world of the sink: who does the next step, who dies, who comes back."""

from random import Random

from penstock.spark.sink.decision import Prepared
from penstock.spark.sink.trouble import Contended, OlderBatch, SinkTrouble, Superseded
from rig.sink_world import PARTITIONS, PARTS, SinkWorld

BATCHES = 4
STEPS_MAX = 5_000


def settle(world: SinkWorld) -> None:
    """Lets all who live go on to their end, and then a last driver, which is alone."""
    steps = 0
    while world.drivers or world.tasks:
        for name in [*world.drivers, *world.tasks]:
            world.step(name)
            steps += 1
        assert steps < STEPS_MAX, "somebody never ends"
    world.failing = world.losses = 0
    world.batches += 1
    run = world.start_driver()
    while run in world.drivers or world.tasks:
        for name in [*world.drivers, *world.tasks]:
            world.step(name)
            steps += 1
        assert steps < STEPS_MAX, "somebody never ends"


def unexpected(world: SinkWorld) -> list[SinkTrouble]:
    """A driver that met another, or comes after it, may have to stop; nothing is lost by it."""
    stopped = Superseded | Contended | OlderBatch
    return [one for one in world.troubles if not isinstance(one, stopped)]


def all_step(world: SinkWorld, run: str, *, times: int) -> None:
    """One driver and all tasks, in turns."""
    for _ in range(times):
        for name in [*([run] if run in world.drivers else []), *world.tasks]:
            world.step(name)


def explore(seed: int, *, two_phase: bool) -> SinkWorld:
    """Drivers are killed, left behind and started anew; tasks fail, are doubled, are slow and
    outlive their driver; answers are lost: in an order that the dice find. Checked when at rest.
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
            del world.drivers[dice.choice(list(world.drivers))]
        actors = [*world.drivers, *world.tasks]
        if actors:
            chosen = dice.choice(actors)
            if not slow.setdefault(chosen, dice.random() < 0.25) or dice.random() < 0.02:
                world.step(chosen)
    settle(world)
    world.check()
    assert unexpected(world) == [], seed
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
    del world.drivers[run]
    late = world.cluster.take_over(last.unfinished.transactions[0].transactional_id)
    assert isinstance(late, Prepared)
    assert world.cluster.write(late, (0, 0, 0))
    settle(world)
    world.check()
    return world
