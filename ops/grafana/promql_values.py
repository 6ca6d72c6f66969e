"""Values of PromQL over some scrapes that are kept in memory.

Only the part of the language that our dashboard uses, and most of our rules to the left of their
comparison: `by` stands before its operand, a range only within `rate` and `increase`, which do not
extrapolate. What is not understood is refused.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = float | Vector
Matcher = tuple[str, str, str]  # label, operator, text

TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])'
    r"|(?P<name>[A-Za-z_:][\w:]*)|(?P<number>\d+(?:\.\d+)?)|(?P<sign>=~|!~|!=|[-+*/=(){},]))"
)
AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "count": len,
}
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class NotUnderstood(Exception):
    """It is not PromQL, or more of it than is known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What all nodes told at one time: the samples of each name."""

    at_s: float
    samples: Mapping[str, Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """At the time of the last scrape, over those before it."""

    scrapes: Sequence[Scrape]
    interval_s: float  # what Grafana puts for $__rate_interval

    @property
    def at_s(self) -> float:
        return self.scrapes[-1].at_s

    def instant(self, name: str, matchers: Sequence[Matcher]) -> Vector:
        return _matching(self.scrapes[-1], name, matchers)

    def increases(
        self, name: str, matchers: Sequence[Matcher], range_s: float
    ) -> dict[Labels, tuple[float, float]]:
        """How much each counter rose, and within how many seconds; one that fell began anew."""
        within = [one for one in self.scrapes if one.at_s >= self.at_s - range_s]
        found: dict[Labels, tuple[float, float]] = {}
        for labels in _matching(self.scrapes[-1], name, matchers):
            told = [
                (one.at_s, value)
                for one in within
                if (value := one.samples.get(name, {}).get(labels)) is not None
            ]
            if len(told) > 1:
                pairs = pairwise(told)
                rose = sum(new - old if new >= old else new for (_, old), (_, new) in pairs)
                found[labels] = (rose, told[-1][0] - told[0][0])
        return found


def evaluate(text: str, scrapes: Sequence[Scrape], *, interval_s: float) -> Vector:
    """The series of an expression, with a value each; a number is one without labels."""
    reader = _Reader(text, Evaluation(scrapes=scrapes, interval_s=interval_s))
    value = reader.expression()
    reader.end()
    return value if isinstance(value, dict) else {frozenset(): value}


def _matching(scrape: Scrape, name: str, matchers: Sequence[Matcher]) -> Vector:
    def fits(labels: Labels) -> bool:
        given = dict(labels)
        for label, operator, text in matchers:
            value = given.get(label, "")
            is_so = re.fullmatch(text, value) is not None if "~" in operator else value == text
            if is_so == operator.startswith("!"):
                return False
        return True

    return {labels: value for labels, value in scrape.samples.get(name, {}).items() if fits(labels)}


class _Reader:
    """Reads and evaluates at once, from the weakest operator down."""

    def __init__(self, text: str, evaluation: Evaluation) -> None:
        self._text = text
        self._evaluation = evaluation
        self._tokens: list[str] = []
        self._next = 0
        start, text = 0, text.rstrip()
        while start < len(text):
            match = TOKEN.match(text, start)
            if match is None:
                raise NotUnderstood(f"{text[start:]!r} in {text!r}")
            self._tokens.append(match[match.lastgroup or ""])
            start = match.end()

    def end(self) -> None:
        if self._peek():
            raise NotUnderstood(f"{self._peek()!r} in {self._text!r}")

    def expression(self) -> Value:
        return self._binary(("+", "-"), lambda: self._binary(("*", "/"), self._operand))

    def _binary(self, signs: tuple[str, ...], operand: Callable[[], Value]) -> Value:
        left = operand()
        while self._peek() in signs:
            sign = self._take()
            on: list[str] | None = None
            many_right = False
            if self._peek() == "on":
                self._take()
                on = self._names()
            if self._peek() in ("group_left", "group_right"):
                many_right = self._take() == "group_right"
                self._names()
            left = _combined(sign, left, operand(), on=on, many_right=many_right)
        return left

    def _operand(self) -> Value:
        token = self._take()
        if token == "(":
            value = self.expression()
            self._expect(")")
            return value
        if re.fullmatch(r"\d+(?:\.\d+)?", token):
            return float(token)
        if token in AGGREGATIONS:
            return self._aggregation(token)
        if self._peek() == "(":
            return self._function(token)
        return self._evaluation.instant(token, self._matchers())

    def _aggregation(self, name: str) -> Vector:
        by: list[str] = []
        if self._peek() == "by":
            self._take()
            by = self._names()
        self._expect("(")
        value = self.expression()
        self._expect(")")
        groups: dict[Labels, list[float]] = {}
        for labels, one in _vector(value).items():
            groups.setdefault(_only(labels, by), []).append(one)
        return {labels: float(AGGREGATIONS[name](values)) for labels, values in groups.items()}

    def _function(self, name: str) -> Value:
        self._expect("(")
        value: Value
        if name == "time":
            value = self._evaluation.at_s
        elif name in ("rate", "increase"):
            metric, matchers = self._take(), self._matchers()
            rose = self._evaluation.increases(metric, matchers, self._range_s())
            value = {
                labels: by / seconds if name == "rate" else by
                for labels, (by, seconds) in rose.items()
            }
        elif name == "clamp_min":
            among = _vector(self.expression())
            self._expect(",")
            least = self.expression()
            assert isinstance(least, float)
            value = {labels: max(one, least) for labels, one in among.items()}
        elif name in ("topk", "histogram_quantile"):
            number = self.expression()
            self._expect(",")
            among = _vector(self.expression())
            assert isinstance(number, float)
            value = _quantiles(number, among) if name != "topk" else _largest(int(number), among)
        else:
            raise NotUnderstood(f"{name} in {self._text!r}")
        self._expect(")")
        return value

    def _matchers(self) -> list[Matcher]:
        found: list[Matcher] = []
        if self._peek() != "{":
            return found
        self._take()
        while self._peek() != "}":
            found.append((self._take(), self._take(), self._take()[1:-1]))
            if self._peek() == ",":
                self._take()
        self._take()
        return found

    def _range_s(self) -> float:
        token = self._take().strip("[]")
        if token == "$__rate_interval":
            return self._evaluation.interval_s
        return float(token[:-1]) * SECONDS[token[-1]]

    def _names(self) -> list[str]:
        self._expect("(")
        found = []
        while (token := self._take()) != ")":
            found += [] if token == "," else [token]
        return found

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise NotUnderstood(f"more must follow: {self._text!r}")
        self._next += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._take() != wanted:
            raise NotUnderstood(f"{wanted!r} must follow in {self._text!r}")


def _vector(value: Value) -> Vector:
    if not isinstance(value, dict):
        raise NotUnderstood(f"{value} is a number, and no series")
    return value


def _only(labels: Labels, names: Iterable[str]) -> Labels:
    wanted = set(names)
    return frozenset((name, text) for name, text in labels if name in wanted)


def _combined(
    sign: str, left: Value, right: Value, *, on: list[str] | None, many_right: bool
) -> Value:
    if not isinstance(left, dict) and not isinstance(right, dict):
        return _calculated(sign, left, right)
    if not isinstance(right, dict):
        assert isinstance(left, dict)
        return {labels: _calculated(sign, one, right) for labels, one in left.items()}
    if not isinstance(left, dict):
        return {labels: _calculated(sign, left, one) for labels, one in right.items()}
    many, single = (right, left) if many_right else (left, right)
    partners = {
        (labels if on is None else _only(labels, on)): one for labels, one in single.items()
    }
    found: Vector = {}
    for labels, one in many.items():
        other = partners.get(labels if on is None else _only(labels, on))
        if other is not None:
            found[labels] = _calculated(sign, *((other, one) if many_right else (one, other)))
    return found


def _calculated(sign: str, left: float, right: float) -> float:
    if sign == "/":
        return left / right if right else math.nan
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def _largest(count: int, among: Vector) -> Vector:
    ordered = sorted(among.items(), key=lambda item: (-item[1], sorted(item[0])))
    return dict(ordered[:count])


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """As Prometheus reads it off: within a bucket, values are taken to lie evenly."""
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"])
        rest = frozenset(one for one in labels if one[0] != "le")
        groups.setdefault(rest, []).append((bound, count))
    return {labels: _quantile(quantile, sorted(counts)) for labels, counts in groups.items()}


def _quantile(quantile: float, counts: list[tuple[float, float]]) -> float:
    rank = quantile * counts[-1][1]
    if not counts[-1][1]:
        return math.nan
    below, before = 0.0, 0.0
    for bound, count in counts:
        if count >= rank:
            if math.isinf(bound):
                return below
            return below + (bound - below) * (rank - before) / max(count - before, 1e-12)
        below, before = bound, count
    return below
