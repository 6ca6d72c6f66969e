"""A class made by the lazy decorator behaves as one that the standard library's decorator made."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from penstock.model import lazy_dataclass


@lazy_dataclass.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A frozen value, where pickle finds it."""

    topic: str
    partition: int = 0


def both(body: Callable[[], type], **options: Any) -> tuple[Any, Any]:
    """The class made by either decorator, each of a body of its own."""
    decorate: Any = lazy_dataclass.dataclass
    return decorate(slots=True, **options)(body()), dataclasses.dataclass(slots=True, **options)(
        body()
    )


def point() -> type:
    class Point:
        x: int
        y: int = 2
        seen: list[int] = dataclasses.field(default_factory=list)
        note: str = dataclasses.field(default="", compare=False, repr=False)

    return Point


def bounded() -> type:
    class Bounded:
        low: int
        high: int

        def __post_init__(self) -> None:
            assert self.low <= self.high, (self.low, self.high)

    return Bounded


def spoken() -> type:
    class Spoken:
        word: str

        def __repr__(self) -> str:
            return self.word

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and other.word.lower() == self.word.lower()

        def __hash__(self) -> int:
            return hash(self.word.lower())

    return Spoken


OPTIONS = [
    pytest.param({"frozen": True, "kw_only": True}, id="frozen"),
    pytest.param({"kw_only": True}, id="plain"),
    pytest.param({}, id="by place"),
    pytest.param({"kw_only": True, "eq": False}, id="compared by identity"),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_constructor_defaults_and_readable_form_are_the_same(options: dict[str, bool]) -> None:
    for cls in both(point, **options):
        one, other = cls(x=1), cls(x=1, y=3, note="n")
        assert (one.x, one.y, one.seen, one.note) == (1, 2, [], "")
        assert (other.y, other.note) == (3, "n")
        assert one.seen is not cls(x=1).seen
        assert repr(one).endswith("Point(x=1, y=2, seen=[])")
        assert not hasattr(one, "__dict__")


def test_a_list_given_to_the_constructor_is_kept() -> None:
    for cls in both(point):
        seen: list[int] = []
        assert cls(1, 2, seen).seen is seen


@pytest.mark.parametrize("options", OPTIONS)
def test_wrong_arguments_are_refused(options: dict[str, bool]) -> None:
    for cls in both(point, **options):
        with pytest.raises(TypeError, match="missing 1 required"):
            cls()
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            cls(x=1, z=2)
        assert cls(x=1).x == 1  # and is not spoiled for the next


def test_keywords_are_asked_for_where_the_class_says_so() -> None:
    for cls in both(point, kw_only=True):
        with pytest.raises(TypeError, match="positional"):
            cls(1)
        assert cls.__match_args__ == ()
    for cls in both(point):
        assert cls(1).x == 1
        assert cls.__match_args__ == ("x", "y", "seen", "note")


@pytest.mark.parametrize("options", OPTIONS)
def test_equality_and_hash_are_the_same(options: dict[str, bool]) -> None:
    answers = []
    for cls, stranger in zip(both(point, **options), both(point, **options), strict=True):
        one, same, other = cls(x=1), cls(x=1, note="not compared"), cls(x=2)
        answers.append((one == same, one == other, one == stranger(x=1), one == 1, one == one))
        hashable = options.get("frozen") or options.get("eq") is False
        assert (cls.__hash__ is not None) == hashable
    assert answers[0] == answers[1]


def test_frozen_values_are_keys() -> None:
    assert {Place(topic="a"): 1}[Place(topic="a", partition=0)] == 1
    assert len({Place(topic="a"), Place(topic="a"), Place(topic="b")}) == 2


def test_frozen_values_refuse_to_be_changed() -> None:
    for cls in both(point, frozen=True):
        one = cls(1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
            one.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
            del one.x
        assert one.x == 1
    for cls in both(point):
        one = cls(1)
        one.x = 2
        assert one.x == 2


def test_what_is_checked_after_construction_is_checked() -> None:
    for frozen in (False, True):
        for cls in both(bounded, frozen=frozen):
            assert cls(1, 2).high == 2
            with pytest.raises(AssertionError):
                cls(2, 1)


def test_methods_of_the_body_stay() -> None:
    for cls in both(spoken, frozen=True):
        assert repr(cls("Hear")) == "Hear"
        assert len({cls("Hear"), cls("HEAR")}) == 1


def test_functions_of_the_standard_library_know_the_class() -> None:
    for cls in both(point, frozen=True, kw_only=True):
        one = cls(x=1, seen=[4])
        assert dataclasses.is_dataclass(cls)
        assert [field.name for field in dataclasses.fields(cls)] == ["x", "y", "seen", "note"]
        assert dataclasses.replace(one, y=5) == cls(x=1, y=5, seen=[4])
        assert dataclasses.asdict(one) == {"x": 1, "y": 2, "seen": [4], "note": ""}
        assert copy.copy(one) == one
        assert copy.deepcopy(one).seen is not one.seen


def test_values_can_be_pickled() -> None:
    place = Place(topic="orders", partition=3)
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_value_that_holds_itself_has_a_readable_form() -> None:
    for cls in both(point):
        one = cls(1)
        one.seen.append(one)
        assert repr(one).endswith("seen=[...])")


def test_a_class_without_words_of_its_own_has_its_name() -> None:
    lazy, _ = both(point)
    assert lazy.__doc__ == "Point"


def test_a_second_thread_that_calls_first_too_gets_the_same() -> None:
    """The stub may still be held by one that looked it up before it was replaced."""
    lazy, _ = both(point)
    stub = lazy.__init__
    one, other = lazy(1), lazy.__new__(lazy)
    stub(other, 1)
    assert one == other
