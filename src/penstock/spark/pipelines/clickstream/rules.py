"""When is it fraud? Pure: moments in, alerts out; what is remembered in between is a value.

Every rule has one form: at least `least` different details within `span_ms` for one subject.

    failed-logins   a user     details are events      six within a minute
    two-countries   a user     details are countries   two within ten minutes, of purchases
    card-burst      a card     details are events      five within two minutes, of purchases

Moments may come out of order, by up to a rule's `disorder_ms`. Promises, for one rule and one
subject:

1. Whenever `least` different details lie within `span_ms`, there is an alert, whatever the order.
2. There is no alert otherwise.
3. One run of fraud is one alert: what goes on within `span_ms` of it adds none.
4. A moment that comes twice changes nothing, as long as it is remembered.
5. What is remembered is bounded, by time and by MOMENTS_MAX.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.spark.pipelines.event_time_bounds import DEFAULT_BOUNDS, Lateness

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
# What is later is no signal, and in no session either.
LATENESS = Lateness(late_ms_max=10 * MINUTE_MS, outputs="sessions and alerts")
DISORDER_MS = LATENESS.watermark_ms(DEFAULT_BOUNDS)
MOMENTS_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str
    span_ms: int
    least: int
    disorder_ms: int = DISORDER_MS  # moments may come so far out of order

    def __post_init__(self) -> None:
        assert self.span_ms > 0
        assert self.disorder_ms >= 0
        assert 2 <= self.least < MOMENTS_MAX / 2  # a full memory is then beyond doubt a hit

    @property
    def memory_ms(self) -> int:
        """A moment older than this can't be part of anything any more."""
        return self.span_ms + self.disorder_ms


FAILED_LOGINS = Rule(name="failed-logins", span_ms=MINUTE_MS, least=6)
TWO_COUNTRIES = Rule(name="two-countries", span_ms=10 * MINUTE_MS, least=2)
CARD_BURST = Rule(name="card-burst", span_ms=2 * MINUTE_MS, least=5)

RULES = {rule.name: rule for rule in (FAILED_LOGINS, TWO_COUNTRIES, CARD_BURST)}


class Moment(NamedTuple):
    """Something that happened to a subject. Moments are in order of time, and then of event."""

    at_ms: int
    event_id: str
    detail: str


class Alert(NamedTuple):
    first_at_ms: int
    last_at_ms: int
    event_ids: tuple[str, ...]  # the evidence, in the order of events


class Run(NamedTuple):
    """Fraud that was told of, from its first moment to its last."""

    first_at_ms: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is known of one subject under one rule."""

    moments: tuple[Moment, ...] = ()  # in order
    runs: tuple[Run, ...] = ()

    def check(self, rule: Rule) -> None:
        assert list(self.moments) == sorted(set(self.moments))
        assert len(self.moments) <= MOMENTS_MAX
        assert not self.moments or self.moments[0].at_ms >= self.oldest_ms(rule)
        assert all(run.first_at_ms <= run.last_at_ms for run in self.runs)

    def oldest_ms(self, rule: Rule) -> int:
        """What ended before this does not matter any more."""
        return self.moments[-1].at_ms - rule.memory_ms


NOTHING = Memory()


def notice(memory: Memory, moments: Iterable[Moment], rule: Rule) -> tuple[Memory, list[Alert]]:
    """Takes moments in, one after the other."""
    alerts = []
    for moment in moments:
        memory, alert = _notice(memory, moment, rule)
        memory.check(rule)
        if alert is not None:
            alerts.append(alert)
    return memory, alerts


def forget_at_ms(memory: Memory, rule: Rule) -> int:
    """When nothing of this can matter any more."""
    return memory.moments[-1].at_ms + rule.memory_ms


def _notice(memory: Memory, moment: Moment, rule: Rule) -> tuple[Memory, Alert | None]:
    if moment in memory.moments:
        return memory, None
    moments = list(memory.moments)
    insort(moments, moment)
    hit = _hit(moments, moment, rule)
    runs, alert = _tell(memory.runs, hit, rule) if hit else (memory.runs, None)
    return _kept(moments, runs, rule), alert


def _hit(moments: list[Moment], moment: Moment, rule: Rule) -> list[Moment]:
    """The moments of the first span with `moment` in it that holds enough different details."""
    for first in moments:
        if first.at_ms <= moment.at_ms <= first.at_ms + rule.span_ms:
            within = [one for one in moments if 0 <= one.at_ms - first.at_ms <= rule.span_ms]
            if len({one.detail for one in within}) >= rule.least:
                return within
    return []


def _tell(
    runs: tuple[Run, ...], hit: list[Moment], rule: Rule
) -> tuple[tuple[Run, ...], Alert | None]:
    """An alert, unless this is more of a run that was told of."""
    first_ms, last_ms = hit[0].at_ms, hit[-1].at_ms
    same = [
        run
        for run in runs
        if run.first_at_ms - rule.span_ms <= last_ms and first_ms <= run.last_at_ms + rule.span_ms
    ]
    whole = Run(
        min([first_ms, *(run.first_at_ms for run in same)]),
        max([last_ms, *(run.last_at_ms for run in same)]),
    )
    others = [run for run in runs if run not in same]
    alert = None if same else Alert(first_ms, last_ms, tuple(one.event_id for one in hit))
    return tuple(sorted([*others, whole])), alert


def _kept(moments: list[Moment], runs: tuple[Run, ...], rule: Rule) -> Memory:
    oldest_ms = moments[-1].at_ms - rule.memory_ms
    return Memory(
        moments=tuple(one for one in moments if one.at_ms >= oldest_ms)[-MOMENTS_MAX:],
        runs=tuple(run for run in runs if run.last_at_ms >= oldest_ms),
    )
