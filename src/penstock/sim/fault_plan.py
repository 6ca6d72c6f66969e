"""The faults of a simulation with many machines: drawn from the seed, before anything runs.

Every fault has a beginning and an end. A plan never has more machines out of action at one time
than its limits allow, and no machine is struck by two faults at a time that would undo each other.
After the last end there is quiet, in which the cluster must become healthy. A plan is a value: it
can be printed, and cut down to the faults that a failure needs (`shrink`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

TRIES_MAX = 20  # to find a place for a fault within the limits


class HostFaultKind(Enum):
    KILL = "kill"
    POWER_LOSS = "power loss"
    KILL_IN_A_CALL = "kill in a call"  # in the middle of what it writes
    POWER_LOSS_IN_A_CALL = "power loss in a call"
    REPLACED_DISK = "replaced disk"  # a kill, and an empty disk at the next start
    WIPED_DIRECTORY = "wiped directory"  # likewise, of records alone: the metadata are elsewhere
    STOP = "clean stop"
    PAUSE = "pause"
    PARTITION = "partition"
    ONE_WAY = "one-way partition"
    CUT_LINK = "cut link"  # between two machines that others still reach, in one or both directions
    RESET = "reset"
    HALF_OPEN = "half-open"
    SLOW_LINK = "slow link"
    SLOW_DISK = "slow disk"
    FULL_DISK = "full disk"
    CLOCK_JUMP = "clock jump"
    FLIPPED_BIT = "flipped bit"


# Machines that these strike are of no use to the others until the fault ends.
DISABLING = frozenset(
    {
        HostFaultKind.KILL,
        HostFaultKind.POWER_LOSS,
        HostFaultKind.KILL_IN_A_CALL,
        HostFaultKind.POWER_LOSS_IN_A_CALL,
        HostFaultKind.REPLACED_DISK,
        HostFaultKind.WIPED_DIRECTORY,
        HostFaultKind.STOP,
        HostFaultKind.PAUSE,
        HostFaultKind.PARTITION,
        HostFaultKind.ONE_WAY,
        HostFaultKind.FULL_DISK,
    }
)
TOGETHER = frozenset(
    {HostFaultKind.KILL, HostFaultKind.POWER_LOSS}
)  # may strike all machines at once
UNUSUAL = (
    HostFaultKind.REPLACED_DISK,
    HostFaultKind.WIPED_DIRECTORY,
    HostFaultKind.STOP,
    HostFaultKind.CUT_LINK,
    HostFaultKind.FLIPPED_BIT,
)
USUAL_KINDS = tuple(kind for kind in HostFaultKind if kind not in UNUSUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    kind: HostFaultKind
    start_ms: int
    end_ms: int
    hosts: tuple[str, ...]  # those struck; for a partition, those on the smaller side
    amount: float  # how much, which way: from 0 up to 1

    def __post_init__(self) -> None:
        assert self.start_ms < self.end_ms
        assert self.hosts

    def __str__(self) -> str:
        times = f"{self.start_ms / 1000:9.3f} s to {self.end_ms / 1000:9.3f} s"
        return f"{times}  {self.kind.value:<20} {self.amount:.3f}  {' '.join(self.hosts)}"

    def overlaps(self, other: "PlannedFault") -> bool:
        return self.start_ms < other.end_ms and other.start_ms < self.end_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLimits:
    """What a scenario allows."""

    kinds: tuple[HostFaultKind, ...] = USUAL_KINDS
    kinds_drawn: float = 0.4  # how many of them one plan has
    faults_min: int = 3
    faults_max: int = 12
    disabled_max: int = 1  # machines out of action at one time
    all_at_once: bool = True  # except that now and then all are killed, or lose power, together
    together: float = 0.15  # how many of such faults strike all
    first_ms: int = 0
    last_ms: int = 60_000  # when the last fault has ended
    length_ms_min: int = 50
    length_ms_max: int = 12_000

    def __post_init__(self) -> None:
        assert self.kinds
        assert 0 <= self.faults_min <= self.faults_max
        assert self.first_ms + self.length_ms_max <= self.last_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    faults: tuple[PlannedFault, ...]  # in the order in which they begin
    lasts_ms: int = 0  # at least; longer when a fault ends later

    @property
    def quiet_from_ms(self) -> int:
        return max((fault.end_ms for fault in self.faults), default=0)

    @property
    def count_by_kind(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for fault in self.faults:
            counts[fault.kind.value] = counts.get(fault.kind.value, 0) + 1
        return dict(sorted(counts.items()))

    def __str__(self) -> str:
        return "\n".join(f"{number:3} {fault}" for number, fault in enumerate(self.faults))

    def without(self, number: int) -> "FaultPlan":
        kept = self.faults[:number] + self.faults[number + 1 :]
        return replace(self, faults=kept)


def draw_plan(chance: Random, hosts: tuple[str, ...], limits: FaultLimits) -> FaultPlan:
    """Some kinds of fault in plenty rather than a little of each. Fewer faults than drawn where
    the limits leave no room for them.
    """
    drawn = tuple(kind for kind in limits.kinds if chance.random() < limits.kinds_drawn)
    kinds = drawn or (chance.choice(limits.kinds),)
    faults: list[PlannedFault] = []
    for _ in range(chance.randint(limits.faults_min, limits.faults_max)):
        for _ in range(TRIES_MAX):
            fault = _draw_fault(chance, hosts, kinds, limits)
            if _is_allowed(fault, faults, hosts, limits):
                faults.append(fault)
                break
    return FaultPlan(
        faults=tuple(sorted(faults, key=lambda fault: (fault.start_ms, fault.hosts))),
        lasts_ms=limits.last_ms,
    )


def shrink(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """The faults of a failing plan that it cannot do without: dropped one by one while it still
    fails, the last ones first, until none can be dropped.
    """
    number = len(plan.faults) - 1
    dropped = False
    while number >= 0:
        smaller = plan.without(number)
        if fails(smaller):
            plan, dropped = smaller, True
        number -= 1
        if number < 0 and dropped:
            number, dropped = len(plan.faults) - 1, False
    return plan


def most_disabled(faults: Iterable[PlannedFault]) -> int:
    """How many machines are out of action at one time, at most."""
    faults = [fault for fault in faults if fault.kind in DISABLING]
    return max((len(_disabled_with(fault, faults)) for fault in faults), default=0)


def _draw_fault(
    chance: Random, hosts: tuple[str, ...], kinds: tuple[HostFaultKind, ...], limits: FaultLimits
) -> PlannedFault:
    kind = chance.choice(kinds)
    # Most faults are short: half of them last less than a quarter of the longest.
    length_ms = limits.length_ms_min + round(
        chance.random() ** 2 * (limits.length_ms_max - limits.length_ms_min)
    )
    start_ms = chance.randint(limits.first_ms, limits.last_ms - length_ms)
    if limits.all_at_once and kind in TOGETHER and chance.random() < limits.together:
        struck = hosts
    else:
        count = chance.randint(1, max(1, limits.disabled_max))
        if kind is HostFaultKind.CUT_LINK:
            count = 2
        struck = tuple(sorted(chance.sample(hosts, min(count, len(hosts)))))
    return PlannedFault(
        kind=kind,
        start_ms=start_ms,
        end_ms=start_ms + length_ms,
        hosts=struck,
        amount=chance.random(),
    )


def _is_allowed(
    fault: PlannedFault, others: list[PlannedFault], hosts: tuple[str, ...], limits: FaultLimits
) -> bool:
    beside = [other for other in others if other.overlaps(fault)]
    for other in beside:
        if other.kind is fault.kind and set(other.hosts) & set(fault.hosts):
            return False
    if fault.kind not in DISABLING:
        return True
    disabling = [other for other in beside if other.kind in DISABLING]
    if any(set(other.hosts) & set(fault.hosts) for other in disabling):
        return False
    strikes_all = len(hosts) > limits.disabled_max and fault.hosts == hosts
    if strikes_all or any(other.hosts == hosts for other in disabling):
        return not disabling
    return most_disabled([*disabling, fault]) <= limits.disabled_max


def _disabled_with(fault: PlannedFault, faults: list[PlannedFault]) -> set[str]:
    """At the moment at which a fault begins: the worst moments are such."""
    return {
        host
        for other in faults
        if other.start_ms <= fault.start_ms < other.end_ms
        for host in other.hosts
    }
