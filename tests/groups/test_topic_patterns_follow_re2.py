"""Regular expressions over names and ids: RE2's syntax, whole matches, no exponential time."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from penstock.model.limit import REGEX_CHARACTERS_MAX
from penstock.model.regex.pattern import TooManySteps, compile_pattern
from penstock.model.regex.syntax import InvalidRegex

MATCHES = [
    ("orders", "orders", True),
    ("orders", "orders-eu", False),
    ("orders", "my-orders", False),
    ("orders.*", "orders-eu", True),
    ("^orders-(eu|us)$", "orders-us", True),
    ("^orders-(eu|us)$", "orders-ap", False),
    (r"a\.b", "a.b", True),
    (r"a\.b", "a-b", False),
    ("(?i)ORDERS", "orders", True),
    ("(?i:O)rders", "orders", True),
    ("(?i:O)RDERS", "orders", False),
    ("a(?i)b", "aB", True),
    ("(a(?i)b)c", "aBC", False),
    ("a{2,3}", "aaa", True),
    ("a{2,3}", "aaaa", False),
    ("a{0}b", "b", True),
    ("x{,2}", "xx", False),  # no repetition: the brace stands for itself
    (r"\d+", "2024", True),
    (r"[[:alpha:]]+", "abc", True),
    (r"[^[:alpha:]]+", "a1", False),
    (r"\p{Lu}\p{Ll}+", "Orders", True),
    (r"\pN+", "17", True),
    (r"\Qa.b\E", "a.b", True),
    (r"\Qa.b\E", "axb", False),
    (r"\x61\142\x{63}", "abc", True),
    (r"orders\b.eu", "orders-eu", True),
    (r"orders\b.eu", "orders_eu", False),
    (r"orders\B.eu", "orders_eu", True),
    (r"\Aorders\z", "orders", True),
    ("a|", "a", True),
    ("", "a", False),
    ("(?P<region>eu|us)-(?<kind>in|out)", "eu-out", True),
    ("[a-c.-]+", "a.b-c", True),
    ("[]a]+", "aa", True),
    ("(?s).*", "anything", True),
    ("é", "e", False),
]

# Transactional ids have any characters.
MATCHES_OF_IDS = [
    ("orders.*", "orders:eu/1", True),
    ("orders:[a-z]+/\\d", "orders:eu/1", True),
    ("orders[^:]eu", "orders:eu", False),
    (r"orders\Weu", "orders eu", True),
    (r"orders\seu", "orders eu", True),
    (r"orders\Seu", "orders eu", False),
    ("[[:punct:]]+", "<-:/>", True),
    ("[[:print:]]+", "a b", True),
    ("[[:graph:]]+", "a b", False),
    ("[[:ascii:]]+", "caf\u00e9", False),
    ("caf.", "caf\u00e9", True),
    ("(?i)CAF\u00c9", "caf\u00e9", True),
    (r"\x{e9}", "\u00e9", True),
    ("[\u00e0-\u00ff]", "\u00e9", True),
    (r"\w", "\u00e9", False),
    (r"\pL+", "caf\u00e9", True),
    (r"\p{Greek}+", "\u03b1\u03b2", True),
    (r"\p{Greek}+", "ab", False),
    (r"\P{Latin}+", "\u03b1\u03b2", True),
    (r"\p{Common}+", "1:/-", True),
    ("(?i)stra\u00dfe", "STRA\u00dfE", True),
    ("(?i)k", "\u212a", True),
    (".*", "two\nlines", False),
    ("(?s).*", "two\nlines", True),
    ("(?s:a.)b.", "a\nb\n", False),
    (r"two\slines", "two\nlines", True),
]

NOT_RE2 = [
    r"(a)\1",
    "(?=a)b",
    "(?!a)b",
    "(?<=a)b",
    "(?<!a)b",
    "(?>a)",
    "(?#comment)",
    "(?P=name)",
    "(?x)a",
    "(?i",
    "(?-)",
    "a**",
    "a*+",
    "a{2}{3}",
    "*a",
    "(*)",
    "a|*",
    "a{1001}",
    "a{3,2}",
    "a{99999999999}",
    "(a",
    "a)",
    "[a",
    "[b-a]",
    r"[a-\d]",
    "[[:word",
    "[[:letters:]]",
    r"\p{Elvish}",
    r"\p",
    r"\p{",
    r"\C",
    r"\E",
    r"\Z",
    r"\8",
    r"\x4",
    r"\x{110000}",
    r"\x{}",
    "\\",
    "(?P<a>b)(?P<a>c)",
    "(?P<>b)",
    "(?P<a-b>c)",
    "(" * 10_000,
    "(" * 101 + ")" * 101,
    "((a{1000}){1000}){1000}",
    f"[{'ab' * 10_001}]",
]


@pytest.mark.parametrize(("pattern", "name", "matches"), MATCHES + MATCHES_OF_IDS)
def test_a_name_matches_as_a_whole_or_not_at_all(pattern: str, name: str, matches: bool) -> None:
    assert compile_pattern(pattern).matching([name]) == ([name] if matches else [])


@pytest.mark.parametrize("pattern", NOT_RE2, ids=lambda pattern: pattern[:20])
def test_what_is_not_an_expression_of_re2_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)*x", "(a?){100}a{100}b"])
def test_expressions_that_make_backtracking_explode_are_matched_all_the_same(pattern: str) -> None:
    names = ["a" * length for length in range(1, 249)]
    assert compile_pattern(pattern).matching(names) == []


def test_an_expression_that_costs_too_much_is_refused() -> None:
    # The automaton must remember which of the last 240 characters were an `a`.
    names = [f"{number:0249b}".replace("0", "a").replace("1", "b") for number in range(3000)]
    with pytest.raises(TooManySteps):
        compile_pattern("(a|b)*a(a|b){120}(a|b)*(aa|ba){100}[ab]*c").matching(names)


def test_a_state_remembers_so_many_characters_and_no_more() -> None:
    pattern = compile_pattern("(.|x)*")
    for first in range(0x4E00, 0x4E00 + 3 * REGEX_CHARACTERS_MAX, 500):
        name = "".join(map(chr, range(first, first + 500)))
        assert pattern.matching([name]) == [name]
    remembered = [len(state.by_character) for state in pattern._states.values()]
    assert 500 <= max(remembered) <= REGEX_CHARACTERS_MAX


def test_a_thousand_names_joined_into_one_expression_find_their_topics() -> None:
    names = [f"topic-{number}" for number in range(2000)]
    pattern = compile_pattern("|".join(names[:1000]))
    assert pattern.matching(names) == names[:1000]


ATOMS = ["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", r"\b", "^", "$"]


def expressions() -> SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map("".join),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=8,
    )


@settings(max_examples=200)
@given(expressions(), st.lists(st.text("ab._1", min_size=1, max_size=5), max_size=20))
def test_where_both_have_the_syntax_the_answer_is_that_of_re(
    pattern: str, names: list[str]
) -> None:
    # `$` of `re` matches before a line end, which names have not.
    expected = [name for name in names if re.fullmatch(pattern, name)]
    assert compile_pattern(pattern).matching(names) == expected


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        pattern = compile_pattern(text)
    except InvalidRegex:
        return
    pattern.matching(["a", "orders.eu-1"])
