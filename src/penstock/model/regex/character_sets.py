"""Sets of characters: named ones, ranges, and how they are negated and combined.

A set is a predicate, so that it covers all of Unicode without a table. Python has no table of
scripts: a character belongs to the script that its Unicode name begins with.

What a set costs for one character does not grow with the text of an expression: ranges are merged
and searched, and of a named set there is one predicate, however often it is named.
"""

import string
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from penstock.model.regex.syntax import WORD_CHARACTERS, InvalidRegex, Members

DIGITS = frozenset(string.digits)
LETTERS = frozenset(string.ascii_letters)
WHITE_SPACE = frozenset("\t\n\f\r ")


def every(character: str) -> bool:
    return True


def but_line_ends(character: str) -> bool:
    return character != "\n"


def negated(members: Members) -> Members:
    return lambda character: not members(character)


def any_of(sets: Iterable[Members]) -> Members:
    """The characters that are in one of the sets."""
    each = tuple(sets)
    if len(each) == 1:
        return each[0]
    return lambda character: any(part(character) for part in each)


def in_ranges(ranges: Iterable[tuple[str, str]], *, ignore_case: bool) -> Members:
    """The characters from the first to the last of a range; with all their cases when case is
    ignored.
    """
    merged: list[tuple[str, str]] = []
    for first, last in sorted(ranges):
        assert first <= last
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    firsts = [first for first, _ in merged]

    def is_in(character: str) -> bool:
        at = bisect_right(firsts, character) - 1
        return at >= 0 and character <= merged[at][1]

    if ignore_case:
        return lambda character: is_in(character) or any(map(is_in, other_cases(character)))
    return is_in


def between(first: str, last: str, *, ignore_case: bool) -> Members:
    """One range."""
    assert first <= last
    if ignore_case:
        return in_ranges([(first, last)], ignore_case=True)
    if first == last:
        return first.__eq__
    return lambda character: first <= character <= last


def in_all_cases(members: Members) -> Members:
    return lambda character: (
        members(character) or (len(other := character.swapcase()) == 1 and members(other))
    )


def other_cases(character: str) -> tuple[str, ...]:
    swapped = character.swapcase()
    also = _ALSO_FOLDED.get(character, character)
    return (swapped, also) if len(swapped) == 1 else (also,)


# Letters that are the same as one of ASCII when case is ignored, and no other case of it.
_ALSO_FOLDED = {"k": "\u212a", "K": "\u212a", "s": "\u017f", "S": "\u017f"}

PERL_SETS: Mapping[str, Members] = MappingProxyType(
    {
        "d": DIGITS.__contains__,
        "D": negated(DIGITS.__contains__),
        "w": WORD_CHARACTERS.__contains__,
        "W": negated(WORD_CHARACTERS.__contains__),
        "s": WHITE_SPACE.__contains__,
        "S": negated(WHITE_SPACE.__contains__),
    }
)

POSIX_SETS: Mapping[str, Members] = MappingProxyType(
    {
        "alnum": (LETTERS | DIGITS).__contains__,
        "alpha": LETTERS.__contains__,
        "ascii": str.isascii,
        "blank": frozenset("\t ").__contains__,
        "cntrl": lambda character: character < " " or character == "\x7f",
        "digit": DIGITS.__contains__,
        "graph": between("!", "~", ignore_case=False),
        "lower": frozenset(string.ascii_lowercase).__contains__,
        "print": between(" ", "~", ignore_case=False),
        "punct": frozenset(string.punctuation).__contains__,
        "space": frozenset(string.whitespace).__contains__,
        "upper": frozenset(string.ascii_uppercase).__contains__,
        "word": WORD_CHARACTERS.__contains__,
        "xdigit": frozenset(string.hexdigits).__contains__,
    }
)

_CATEGORY_NAMES = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So
    Z Zl Zp Zs"""
_SCRIPT_NAMES = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret
    Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han
    Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
    Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar
    New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya
    Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri
    Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
    Ugaritic Unknown Vai Yi"""
CATEGORIES = frozenset(_CATEGORY_NAMES.split())
SCRIPTS = frozenset(_SCRIPT_NAMES.split())
_UNASSIGNED = "Cn"  # a category of Python's that RE2 does not have
# Where Unicode's names of characters begin with another word than the script.
_NAMED_OTHERWISE = {"Han": "CJK", "Inherited": "COMBINING"}
_FIRST_WORDS = {
    name: _NAMED_OTHERWISE.get(name, name.upper().replace("_", " "))
    for name in SCRIPTS - {"Common", "Unknown"}
}
_ALL_FIRST_WORDS = tuple(f"{words} " for words in _FIRST_WORDS.values())


@cache
def posix_set(name: str, *, ignore_case: bool, is_negated: bool) -> Members:
    found = POSIX_SETS[name]
    if ignore_case:
        found = in_all_cases(found)
    return negated(found) if is_negated else found


@cache
def named_unicode_set(name: str, *, ignore_case: bool, is_negated: bool) -> Members:
    found = unicode_set(name)
    if ignore_case:
        found = in_all_cases(found)
    return negated(found) if is_negated else found


def unicode_set(name: str) -> Members:
    """The characters of a general category or of a script."""
    if name == "Any":
        return every
    if name in CATEGORIES:
        return lambda character: (
            (category := unicodedata.category(character)).startswith(name)
            and category != _UNASSIGNED
        )
    if name == "Unknown":
        return lambda character: unicodedata.category(character) == _UNASSIGNED
    if name == "Common":
        return lambda character: (
            unicodedata.category(character) != _UNASSIGNED
            and not unicodedata.name(character, "").startswith(_ALL_FIRST_WORDS)
        )
    if name in SCRIPTS:
        return _of_script(name)
    raise InvalidRegex(f"invalid character class range: `\\p{{{name}}}`")


def _of_script(name: str) -> Members:
    first_word = _FIRST_WORDS[name] + " "
    return lambda character: unicodedata.name(character, "").startswith(first_word)
