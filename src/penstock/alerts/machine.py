"""The alerts of a node over time: what is pending, what fires, what has cleared.

    (none) -- beyond --> PENDING -- beyond for fires_after_ms --> FIRING    told: firing
              PENDING -- within --> (none)
              FIRING  -- within for clears_after_ms --> (none)              told: cleared

A firing alert that is within for less than that goes on firing and nothing is told, so a figure
that moves around its threshold does not flap. A subject that has no figure any more counts as
within, unless the snapshot says that its figure may have been left out. A figure of None is not
known now: it changes nothing. What belongs to a scope that this node does not speak for any
more is forgotten without a word: another node tells it.

Invariants
 1  For each rule and subject, firing and cleared are told in turns, firing first.
 2  At most `tracked_max` alerts of a rule are pending or firing: many subjects of one rule keep no
    other rule from firing.
 3  A pending alert has no `within_since_ms`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from penstock.alerts.rule import Rule, Scope
from penstock.model.lazy_dataclass import dataclass

Figures = Mapping[str, Mapping[str, float | None]]  # by the name of a rule, and by subject

MayBeLeftOut = Callable[[str], bool]  # of a subject


class Phase(Enum):
    PENDING = "pending"
    FIRING = "firing"


class State(Enum):
    """What is told of an alert."""

    FIRING = "firing"
    CLEARED = "cleared"


class AlertKey(NamedTuple):
    rule: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    now_ms: int  # of a clock that only grows
    scopes: frozenset[Scope]  # those that this node speaks for now
    figures: Figures
    # By rule, where some figures were left out: whether that of a subject may be one of them.
    left_out: Mapping[str, MayBeLeftOut] = field(default_factory=dict)

    def may_lack(self, rule: Rule, subject: str) -> bool:
        may_be_left_out = self.left_out.get(rule.name)
        return may_be_left_out is not None and may_be_left_out(subject)


@dataclass(slots=True, kw_only=True)
class Alert:
    rule: Rule
    subject: str
    phase: Phase
    since_ms: int  # when the phase began
    value: float
    within_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    rule: Rule
    subject: str
    state: State
    value: float | None  # the figure; None: the subject has none any more


class Alerts:
    def __init__(self, rules: Iterable[Rule], *, tracked_max: int) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._tracked_max = tracked_max
        self._alerts: dict[str, dict[str, Alert]] = {name: {} for name in self._rules}
        self.left_out = 0  # subjects of the last snapshot that found no room

    @property
    def tracked(self) -> Mapping[AlertKey, Alert]:
        return {
            AlertKey(name, subject): alert
            for name, alerts in self._alerts.items()
            for subject, alert in alerts.items()
        }

    def evaluates(self, rule_name: str) -> bool:
        return rule_name in self._rules

    def firing(self) -> tuple[Alert, ...]:
        return tuple(one for one in self.tracked.values() if one.phase is Phase.FIRING)

    def check(self) -> None:
        for alerts in self._alerts.values():
            assert len(alerts) <= self._tracked_max  # invariant 2
        for key, alert in self.tracked.items():
            assert key == (alert.rule.name, alert.subject)
            if alert.phase is Phase.PENDING:
                assert alert.within_since_ms is None  # invariant 3

    def evaluate(self, snapshot: Snapshot) -> tuple[Transition, ...]:
        """Takes up a snapshot; what is to be told, in the order of the rules and subjects."""
        self._forget_other_scopes(snapshot.scopes)
        self.left_out = 0
        told = []
        for rule in self._rules.values():
            if rule.scope not in snapshot.scopes:
                continue
            figures = snapshot.figures.get(rule.name, {})
            for subject in sorted({*self._alerts[rule.name], *figures}):
                value = figures.get(subject)
                if value is None and (subject in figures or snapshot.may_lack(rule, subject)):
                    continue  # not known now
                transition = self._take(rule, subject, value, snapshot.now_ms)
                if transition is not None:
                    told.append(transition)
        return tuple(told)

    def adopt(self, keys: Iterable[AlertKey], *, now_ms: int) -> None:
        """Alerts that were told as firing before this node began, or by another one: they go on
        firing, and are told again only when they clear.
        """
        for key in keys:
            rule = self._rules.get(key.rule)
            if rule is None:
                continue
            alerts = self._alerts[rule.name]
            known = alerts.get(key.subject)
            if known is None and len(alerts) >= self._tracked_max:
                continue
            if known is None or known.phase is Phase.PENDING:
                alerts[key.subject] = Alert(
                    rule=rule,
                    subject=key.subject,
                    phase=Phase.FIRING,
                    since_ms=now_ms,
                    value=rule.threshold if known is None else known.value,
                )

    def _take(
        self, rule: Rule, subject: str, value: float | None, now_ms: int
    ) -> Transition | None:
        alerts = self._alerts[rule.name]
        alert = alerts.get(subject)
        if value is None or not rule.is_beyond(value):
            return None if alert is None else self._within(alert, value, now_ms)
        if alert is None:
            if len(alerts) >= self._tracked_max:
                self.left_out += 1
                return None
            alert = alerts[subject] = Alert(
                rule=rule, subject=subject, phase=Phase.PENDING, since_ms=now_ms, value=value
            )
        alert.value = value
        alert.within_since_ms = None
        if alert.phase is Phase.FIRING or now_ms - alert.since_ms < rule.fires_after_ms:
            return None
        alert.phase = Phase.FIRING
        alert.since_ms = now_ms
        return Transition(rule=rule, subject=subject, state=State.FIRING, value=value)

    def _within(self, alert: Alert, value: float | None, now_ms: int) -> Transition | None:
        if alert.phase is Phase.PENDING:
            del self._alerts[alert.rule.name][alert.subject]
            return None
        if alert.within_since_ms is None:
            alert.within_since_ms = now_ms
        if now_ms - alert.within_since_ms < alert.rule.clears_after_ms:
            return None
        del self._alerts[alert.rule.name][alert.subject]
        return Transition(rule=alert.rule, subject=alert.subject, state=State.CLEARED, value=value)

    def _forget_other_scopes(self, scopes: frozenset[Scope]) -> None:
        for rule in self._rules.values():
            if rule.scope not in scopes:
                self._alerts[rule.name].clear()
