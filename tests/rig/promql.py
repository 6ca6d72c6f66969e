"""Which metrics and labels an expression of PromQL names.

No evaluation, and only the part of the language that our rules and panels use: `by` stands before
its operand, subqueries and `without` are not taken. What is not understood is refused.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

AGGREGATIONS = {"sum", "min", "max", "avg", "count"}
FUNCTIONS = {"rate", "increase", "histogram_quantile", "clamp_min", "time", "topk"}
SET_OPERATORS = {"and", "or", "unless"}
OFFSET = "offset"
MATCHING = {"on", "group_left", "group_right"}
# Prometheus gives these to all that it scrapes.
TARGET_LABELS = frozenset({"job", "instance"})
TOKEN = re.compile(
    r"\s*(?:"
    r'(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<range>\[(?:\d+[smhdw]|\$__rate_interval)\])"
    r"|(?P<name>[A-Za-z_:][\w:]*)"
    r"|(?P<duration>\d+[smhdw]\b)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<sign>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){},])"
    r")"
)


class BadExpression(Exception):
    """It is not PromQL, or more of it than is understood here."""


class Token(NamedTuple):
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Selected:
    """One metric, the labels that it must have, and those that the result has of it; None: all."""

    name: str
    wanted: frozenset[str]
    kept: frozenset[str] | None


def tokens(text: str) -> list[Token]:
    found, start = [], 0
    text = text.rstrip()
    while start < len(text):
        match = TOKEN.match(text, start)
        if match is None or match.lastgroup is None:
            raise BadExpression(f"{text[start : start + 20]!r} in {text!r}")
        found.append(Token(match.lastgroup, match[match.lastgroup]))
        start = match.end()
    return found


def selected(text: str) -> list[Selected]:
    """Every metric of an expression, in order."""
    return _Reader(text).read()


@dataclass(kw_only=True)
class _Found:
    name: str
    wanted: set[str]
    kept: frozenset[str] | None


@dataclass(kw_only=True)
class _Aggregation:
    """What it takes its labels from: metrics themselves, and aggregations inside."""

    labels: frozenset[str]
    metrics: list[_Found] = field(default_factory=list)
    inside: set[str] = field(default_factory=set)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._around: list[_Aggregation | None] = []  # None: brackets that aggregate nothing
        self._found: list[_Found] = []
        self._matched: set[str] = set()
        self._filters = False  # the next operand gives the result no labels

    def read(self) -> list[Selected]:
        while self._next < len(self._tokens):
            self._step()
        if self._around:
            raise self._bad("a bracket is not closed")
        return [
            Selected(name=one.name, wanted=frozenset(one.wanted | self._matched), kept=one.kept)
            for one in self._found
        ]

    def _step(self) -> None:
        kind, text = self._take()
        if kind == "name" and text in SET_OPERATORS:
            self._filters = text != "or"
            return
        if kind == "name" and text == OFFSET:
            if self._take().kind != "duration":
                raise self._bad("a duration must follow")
            return
        if kind == "name" and text in MATCHING:
            self._matched |= self._labels()
        elif kind == "name" and text in AGGREGATIONS:
            labels: set[str] = set()
            if self._peek() == "by":
                self._take()
                labels = self._labels()
            self._open(_Aggregation(labels=frozenset(labels)))
        elif kind == "name" and self._peek() == "(":
            if text not in FUNCTIONS:
                raise self._bad(f"{text} is no function that is known here")
            self._open(None)
        elif kind == "name":
            self._metric(text)
        elif text == "(":
            self._around.append(_Aggregation(labels=frozenset()) if self._filters else None)
            self._filters = False
        elif text == ")":
            self._close()
        elif text in ("{", "}"):
            raise self._bad("labels of no metric")

    def _open(self, aggregation: _Aggregation | None) -> None:
        if self._peek() != "(":
            raise self._bad("an operand in brackets must follow")
        self._take()
        self._around.append(aggregation)
        self._filters = False

    def _close(self) -> None:
        if not self._around:
            raise self._bad("a bracket is not opened")
        ended = self._around.pop()
        if ended is None:
            return
        missing = ended.labels - ended.inside
        if missing and not ended.metrics:
            raise self._bad(f"{sorted(missing)} were aggregated away before")
        for one in ended.metrics:
            one.wanted |= missing
        for outer in self._aggregations()[-1:]:
            outer.inside |= ended.labels

    def _aggregations(self) -> list[_Aggregation]:
        return [one for one in self._around if one is not None]

    def _metric(self, name: str) -> None:
        aggregations = self._aggregations()
        kept = aggregations[0].labels if aggregations else None
        found = _Found(name=name, wanted=set(), kept=kept)
        self._found.append(found)
        for innermost in aggregations[-1:]:
            if not self._filters:
                innermost.metrics.append(found)
        self._filters = False
        if self._peek() != "{":
            return
        self._take()
        while self._peek() != "}":
            found.wanted.add(self._take().text)
            operator, value = self._take().text, self._take()
            if operator not in ("=", "!=", "=~", "!~") or value.kind != "string":
                raise self._bad("a label is matched with a string")
            if self._peek() == ",":
                self._take()
        self._take()

    def _labels(self) -> set[str]:
        if self._take().text != "(":
            raise self._bad("labels in brackets must follow")
        found: set[str] = set()
        while (token := self._take()).text != ")":
            if token.kind == "name":
                found.add(token.text)
            elif token.text != ",":
                raise self._bad("a label is a name")
        return found

    def _peek(self) -> str | None:
        return self._tokens[self._next].text if self._next < len(self._tokens) else None

    def _take(self) -> Token:
        if self._next == len(self._tokens):
            raise self._bad("more must follow")
        self._next += 1
        return self._tokens[self._next - 1]

    def _bad(self, why: str) -> BadExpression:
        return BadExpression(f"{why}: {self._text!r}")
