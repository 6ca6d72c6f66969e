"""A crash at one place and no other fault: at the nth change of the disk, or after the nth step.

A step is what runs between two awaits of anybody, so a crash after each of them is one at every
await. A run without any fault tells how many places it has; then it is run once for each of them.
The places are counted from the moment on at which clients start until faults end; up to the crash,
both runs are the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from penstock.sim.entropy import stream
from penstock.sim.host import Crash
from penstock.sim.scenario import FaultKind, Scenario, draw, with_transactions


class Unit(Enum):
    CALL = "call"  # that changes the disk
    STEP = "step"  # of the event loop


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    unit: Unit
    number: int
    crash: Crash

    @property
    def kind(self) -> FaultKind:
        """By the name that such a fault has elsewhere."""
        return FaultKind.POWER_LOSS if self.crash is Crash.POWER_LOSS else FaultKind.KILL

    def __str__(self) -> str:
        return f"{self.crash.value} at {self.unit.value} {self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many there were between the start of clients and the end of faults."""

    calls: int = 0
    steps: int = 0

    def points(
        self, *, crash: Crash, call_stride: int = 1, step_stride: int = 1
    ) -> Iterator[CrashPoint]:
        """All of them, or some."""
        for number in range(0, self.calls, call_stride):
            yield CrashPoint(unit=Unit.CALL, number=number, crash=crash)
        for number in range(0, self.steps, step_stride):
            yield CrashPoint(unit=Unit.STEP, number=number, crash=crash)


def small_transactions(seed: int) -> Scenario:
    """Little enough that a crash can be had at every place; nothing else goes wrong."""
    drawn = with_transactions(draw(seed, ()), stream(seed, "small transactions"))
    return replace(
        drawn,
        producers=0,
        readers=0,
        has_admin=False,
        committers=0,
        duration_ms=250,
        short_chance=0.0,
    )


def draw_crash_point(seed: int, scenario: Scenario) -> CrashPoint | None:
    """Half of the seeds with transactions have one, besides their faults."""
    plan = scenario.transactions
    chance = stream(seed, "crash point")
    if plan is None or chance.random() < 0.5:
        return None
    lasts = plan.acks_last and chance.random() < 0.5
    unit = chance.choice((Unit.CALL, Unit.STEP, Unit.STEP))
    number_max = chance.choice((100, 600) if unit is Unit.CALL else (1_000, 10_000))
    return CrashPoint(
        unit=unit,
        number=chance.randrange(number_max),
        crash=Crash.POWER_LOSS if lasts else Crash.KILL,
    )
