"""What brackets cost is counted: for one character, a step for each set that is looked into."""

import pytest

from penstock.model.regex.pattern import Effort, TooManySteps, compile_pattern

HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))


def steps_of(pattern: str, name: str) -> int:
    effort = Effort(left=10**9)
    [found] = compile_pattern(pattern).matching([name], effort)
    assert found == name
    return 10**9 - effort.left


@pytest.mark.parametrize(
    "brackets",
    [
        r"[^\pN\pN\pN\pN\pN\pN\pN\pN]",
        r"[^[:digit:][:digit:][:digit:]]",
        "[^a-z0-9_.,;:!?]",
        r"[^\d\d\d\d]",
    ],
)
def test_sets_that_are_named_again_and_ranges_cost_no_more_than_one(brackets: str) -> None:
    assert steps_of(f"{brackets}*", HAN) == steps_of("[^a]*", HAN)


def test_each_other_set_costs_a_step_for_each_other_character() -> None:
    several = r"[^\pN\pP\pS\pZ\d[:alpha:]]*"
    assert steps_of(several, HAN) == steps_of("[^a]*", HAN) + 5 * len(HAN)


def test_pattern_of_many_sets_is_refused_once_it_has_cost_too_much() -> None:
    pattern = compile_pattern("(" + r"[\pN\pP\pS\pZ\d[:alpha:]]?" * 1000 + r"\pL)*")
    with pytest.raises(TooManySteps):
        pattern.matching([HAN])
