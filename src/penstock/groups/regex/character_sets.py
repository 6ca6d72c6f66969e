"""Named sets of characters, as far as topic names have them."""

import string
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from penstock.groups.regex.syntax import TOPIC_CHARACTERS, WORD_CHARACTERS, InvalidRegex

DIGITS = frozenset(string.digits)
LETTERS = frozenset(string.ascii_letters)

PERL_SETS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "d": DIGITS,
        "D": TOPIC_CHARACTERS - DIGITS,
        "w": WORD_CHARACTERS,
        "W": TOPIC_CHARACTERS - WORD_CHARACTERS,
        "s": frozenset(),
        "S": TOPIC_CHARACTERS,
    }
)

POSIX_SETS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "alnum": LETTERS | DIGITS,
        "alpha": LETTERS,
        "ascii": TOPIC_CHARACTERS,
        "blank": frozenset(),
        "cntrl": frozenset(),
        "digit": DIGITS,
        "graph": TOPIC_CHARACTERS,
        "lower": frozenset(string.ascii_lowercase),
        "print": TOPIC_CHARACTERS,
        "punct": TOPIC_CHARACTERS - LETTERS - DIGITS,
        "space": frozenset(),
        "upper": frozenset(string.ascii_uppercase),
        "word": WORD_CHARACTERS,
        "xdigit": frozenset(string.hexdigits),
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

# Letters that are the same as one of ours when case is ignored, and no other case of it.
_ALSO_FOLDED = {"k": "\u212a", "K": "\u212a", "s": "\u017f", "S": "\u017f"}


def unicode_set(name: str) -> frozenset[str]:
    """The characters of a general category or of a script."""
    if name == "Any":
        return TOPIC_CHARACTERS
    if name in CATEGORIES:
        return frozenset(c for c in TOPIC_CHARACTERS if unicodedata.category(c).startswith(name))
    if name == "Latin":
        return LETTERS
    if name == "Common":
        return TOPIC_CHARACTERS - LETTERS
    if name in SCRIPTS:
        return frozenset()
    raise InvalidRegex(f"invalid character class range: `\\p{{{name}}}`")


def between(first: str, last: str, *, ignore_case: bool) -> frozenset[str]:
    """The characters from one to the other; with all their cases when case is ignored."""
    assert first <= last
    return frozenset(
        c
        for c in TOPIC_CHARACTERS
        if first <= c <= last
        or (ignore_case and any(first <= other <= last for other in other_cases(c)))
    )


def in_all_cases(characters: frozenset[str]) -> frozenset[str]:
    return frozenset(c for c in TOPIC_CHARACTERS if c in characters or c.swapcase() in characters)


def other_cases(character: str) -> tuple[str, ...]:
    return (character.swapcase(), _ALSO_FOLDED.get(character, character))
