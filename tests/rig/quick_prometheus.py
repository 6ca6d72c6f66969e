"""What Prometheus does with our rules, over real scrapes: which alerts fire, and for what.

A clock that runs faster than ours stands in for its minutes: the rules wait for a quarter of an
hour at most, a test for seconds. Expressions, thresholds and times are those of the file.
"""

import operator
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from draw_dashboard import scraped
from promql_values import Labels, Scrape, Vector, evaluate
from rig.ops_files import alerts

QUICKER = 60  # a second is a minute of Prometheus'
INTERVAL_SECONDS = 0.25  # 15 s of Prometheus', as in ops/prometheus/prometheus.yml
KEPT_SECONDS = 16 * 60  # the longest range of a rule is 15 minutes
PATIENCE_SECONDS = 120
COMPARED = re.compile(r"(?P<value>.*) (?P<sign>>|<|==|!=) (?P<number>[0-9.]+)\s*", re.DOTALL)
SIGNS = {">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne}
FOR = {"s": 1, "m": 60, "h": 3_600}


@dataclass(kw_only=True)
class QuickPrometheus:
    """One rule, and the pages of the nodes as they are found at each scrape."""

    alert: str
    urls: Callable[[], list[str]]
    firing: dict[Labels, float] = field(default_factory=dict)  # the value of each that fires
    _scrapes: list[Scrape] = field(default_factory=list)
    _since_s: dict[Labels, float] = field(default_factory=dict)  # of those that hold

    def __post_init__(self) -> None:
        [rule] = [one for one in alerts() if one["alert"] == self.alert]
        compared = COMPARED.fullmatch(rule["expr"])
        assert compared is not None, rule["expr"]
        self._value, self._number = compared["value"], float(compared["number"])
        self._compare = SIGNS[compared["sign"]]
        self._for_s = int(rule["for"][:-1]) * FOR[rule["for"][-1]]

    def look(self) -> None:
        """One scrape of all nodes, and one evaluation."""
        at_s = time.monotonic() * QUICKER
        since_s = at_s - KEPT_SECONDS
        kept = [one for one in self._scrapes if one.at_s >= since_s]
        self._scrapes = [*kept, scraped(self.urls(), at_s=at_s)]
        values = evaluate(self._value, self._scrapes, interval_s=60)
        beyond: Vector = {
            labels: value for labels, value in values.items() if self._compare(value, self._number)
        }
        self._since_s = {labels: self._since_s.get(labels, at_s) for labels in beyond}
        self.firing = {
            labels: value
            for labels, value in beyond.items()
            if at_s - self._since_s[labels] >= self._for_s
        }

    def until_fires(self, meanwhile: Callable[[], None] = lambda: None) -> dict[str, str]:
        """The labels of the first one that does."""
        self._until(lambda: bool(self.firing), meanwhile, "fires")
        return dict(next(iter(self.firing)))

    def until_clears(self) -> None:
        self._until(lambda: not self.firing, lambda: None, "clears")

    def watch(self, seconds: float) -> None:
        """It fires at no time meanwhile."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.look()
            assert not self.firing, self.firing
            time.sleep(INTERVAL_SECONDS)

    def _until(self, is_so: Callable[[], bool], meanwhile: Callable[[], None], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_SECONDS
        while True:
            meanwhile()
            self.look()
            if is_so():
                return
            assert time.monotonic() < deadline_s, f"{self.alert} {what}: {self._since_s}"
            time.sleep(INTERVAL_SECONDS)
