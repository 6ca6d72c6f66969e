"""Whether a topic name or a transactional id matches, in time linear in its length, whatever the
expression.

The tree becomes an automaton of nodes that are in several states at once; the sets of nodes that
come up, and where a character leads from each, are remembered, as RE2 does it. Backtracking, which
`re` does, takes exponential time on expressions that any client may send.

Two bounds keep what a client can cost: nodes of an expression, and steps for one list of names.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import assert_never

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import (
    REGEX_CHARACTERS_MAX,
    REGEX_NODES_MAX,
    REGEX_STATES_MAX,
    REGEX_STEPS_MAX,
)
from penstock.model.regex.parse import parse
from penstock.model.regex.syntax import (
    WORD_CHARACTERS,
    Assertion,
    Characters,
    Choice,
    InvalidRegex,
    Members,
    Node,
    Place,
    Repeat,
    Sequence,
)

ACCEPT = 0  # the node at which a name has matched


class TooManySteps(InvalidRegex):
    """The expression is valid, but matching takes too many steps."""


@dataclass(slots=True)
class Effort:
    """The steps that may still be taken."""

    left: int

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooManySteps("expression takes too many steps to match")


def compile_pattern(text: str, *, nodes_max: int = REGEX_NODES_MAX) -> "Pattern":
    """InvalidRegex when the text is not a valid expression of RE2, or has too many parts."""
    return Pattern(parse(text), nodes_max=nodes_max)


@dataclass(slots=True)
class _Step:
    """A node of the automaton: goes on to `onward`, consuming a character of `members` if it has
    them, and else only at `place` if it asks for one.
    """

    onward: tuple[int, ...]
    members: Members | None = None
    sets: int = 1  # that `members` may have to look into
    place: Place | None = None


@dataclass(slots=True)
class _State:
    """Where a name may stand: the nodes it has reached, and what came before."""

    nodes: tuple[int, ...]
    at_start: bool
    after_word: bool
    by_character: "dict[str, _State]" = field(default_factory=dict)
    accepts: bool | None = None  # None until it was asked for


class Pattern:
    """One expression. It caches the states it has reached, over all calls."""

    def __init__(self, tree: Node, *, nodes_max: int = REGEX_NODES_MAX) -> None:
        if _size(tree) > nodes_max:
            raise InvalidRegex(f"expression has more than {nodes_max} parts")
        self._steps = [_Step(())]
        self._start = self._add(tree, ACCEPT)
        self._states: dict[tuple[tuple[int, ...], bool, bool], _State] = {}
        self._effort = Effort(left=0)

    def matching(self, names: Iterable[str], effort: "Effort | None" = None) -> list[str]:
        """The names that match as a whole, in the order given; TooManySteps when the effort, which
        may be shared with other expressions, is used up.
        """
        self.begin(effort)
        return [name for name in names if self.matches(name)]

    def begin(self, effort: "Effort | None" = None) -> None:
        """Call it before `matches`; the effort is for all names together."""
        self._effort = effort or Effort(left=REGEX_STEPS_MAX)
        self._effort.spend(len(self._steps))

    def matches(self, name: str) -> bool:
        """Whether one name matches as a whole; after `begin`."""
        state = self._state((self._start,), at_start=True, after_word=False)
        for character in name:
            onward = state.by_character.get(character)
            if onward is None:
                if len(state.by_character) >= REGEX_CHARACTERS_MAX:
                    state.by_character.clear()
                onward = state.by_character[character] = self._advance(state, character)
            state = onward
            if not state.nodes:
                return False
        if state.accepts is None:
            state.accepts = ACCEPT in self._reached(state, None)
        return state.accepts

    def _state(self, nodes: tuple[int, ...], *, at_start: bool, after_word: bool) -> _State:
        if len(self._states) >= REGEX_STATES_MAX:
            self._states.clear()  # what is in use lives on by its own references
        key = (nodes, at_start, after_word)
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(nodes, at_start, after_word)
        return state

    def _advance(self, state: _State, character: str) -> _State:
        onward: set[int] = set()
        for node in self._reached(state, character):
            step = self._steps[node]
            if step.members is not None:
                self._effort.spend(step.sets - 1)  # the node itself is counted already
                if step.members(character):
                    onward.update(step.onward)
        return self._state(
            tuple(sorted(onward)), at_start=False, after_word=character in WORD_CHARACTERS
        )

    def _reached(self, state: _State, following: str | None) -> set[int]:
        """The nodes that are reached without a character, before `following` or at the end."""
        boundary = state.after_word != (following in WORD_CHARACTERS)
        holds = {
            None: True,
            Place.START: state.at_start,
            Place.END: following is None,
            Place.WORD_BOUNDARY: boundary,
            Place.NOT_WORD_BOUNDARY: not boundary,
        }
        reached, pending = set(state.nodes), list(state.nodes)
        while pending:
            step = self._steps[pending.pop()]
            if step.members is None and holds[step.place]:
                fresh = [node for node in step.onward if node not in reached]
                reached.update(fresh)
                pending += fresh
        self._effort.spend(len(reached))
        return reached

    def _add(self, tree: Node, onward: int) -> int:
        """Adds the nodes of a tree that leads to `onward`; returns where it begins."""
        match tree:
            case Characters(members, sets):
                return self._put(_Step((onward,), members=members, sets=sets))
            case Assertion(place):
                return self._put(_Step((onward,), place=place))
            case Sequence(parts):
                for part in reversed(parts):
                    onward = self._add(part, onward)
                return onward
            case Choice(options):
                return self._put(_Step(tuple(self._add(option, onward) for option in options)))
            case Repeat(part, least, most):
                onward = self._add_optional(part, most if most is None else most - least, onward)
                for _ in range(least):
                    onward = self._add(part, onward)
                return onward
            case _:
                assert_never(tree)

    def _add_optional(self, part: Node, times: int | None, onward: int) -> int:
        """The part up to `times` times, or as often as one likes."""
        if times is None:
            again = self._put(_Step(()))
            self._steps[again].onward = (self._add(part, again), onward)
            return again
        end = onward
        for _ in range(times):
            onward = self._put(_Step((self._add(part, onward), end)))
        return onward

    def _put(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1


def _size(tree: Node) -> int:
    """How many nodes a tree takes, or somewhat more."""
    match tree:
        case Characters() | Assertion():
            return 1
        case Sequence(parts) | Choice(parts):
            return 1 + sum(map(_size, parts))
        case Repeat(part, least, most):
            return 1 + (_size(part) + 1) * max(least, most or 1, 1)
        case _:
            assert_never(tree)
