"""Text to tree, by the syntax of RE2 as Apache Kafka's coordinator takes it (re2j).

What RE2 lacks is refused: back references, look-around, possessive and nested repetition, atomic
groups, comments. Flags are read: `i` and `s` have an effect, `U` makes no difference to whether a
name matches, and `m`, which matters only to names with line ends, is ignored. Start at `parse`.
"""

from penstock.model.limit import REGEX_DEPTH_MAX, REGEX_NODES_MAX
from penstock.model.regex.character_sets import (
    PERL_SETS,
    POSIX_SETS,
    any_of,
    between,
    but_line_ends,
    every,
    in_ranges,
    named_unicode_set,
    negated,
    posix_set,
)
from penstock.model.regex.syntax import (
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

REPEATS_MAX = 1000
CODE_POINT_MAX = 0x10FFFF
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
ESCAPED_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ESCAPED_PLACES = {
    "A": Place.START,
    "z": Place.END,
    "b": Place.WORD_BOUNDARY,
    "B": Place.NOT_WORD_BOUNDARY,
}
LETTERS_AND_DIGITS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def parse(text: str) -> Node:
    """The tree of an expression; InvalidRegex when the text is not a valid one."""
    parser = _Parser(text)
    node = parser.choice(depth=0)
    if not parser.at_end():
        raise InvalidRegex(f"unexpected ): `{text}`")
    return node


class _Parser:
    """A position in the text, and the flags that hold there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignore_case = False
        self._dot_all = False
        self._names: set[str] = set()
        self._bracketed_parts = 0

    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def choice(self, depth: int) -> Node:
        """Up to the end, or to the parenthesis that closes this."""
        if depth > REGEX_DEPTH_MAX:
            raise InvalidRegex("expression nests too deeply")
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        last_repeat: int | None = None  # where a repetition began that has just ended
        while not self.at_end() and self._text[self._at] not in "|)":
            start = self._at
            bounds = self._repetition()
            if bounds is None:
                last_repeat = None
                parts += self._item(depth)
            elif not parts:
                raise InvalidRegex(
                    f"missing argument to repetition operator: `{self._text[start : self._at]}`"
                )
            elif last_repeat is not None:
                raise InvalidRegex(
                    f"invalid nested repetition operator: `{self._text[last_repeat : self._at]}`"
                )
            else:
                self._take("?")  # reluctant: which of several ways matches makes no difference
                parts.append(Repeat(parts.pop(), *bounds))
                last_repeat = start
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        """The bounds of a repetition operator, if one stands here."""
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._text.startswith("{", self._at):
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, self._at + 1)].partition(",")
        if not is_number(least) or (most and not is_number(most)):
            return None  # a brace that stands for itself
        written = self._text[self._at : end + 1]
        self._at = end + 1
        if max(len(least), len(most)) > 9:
            raise InvalidRegex(f"invalid repeat count: `{written}`")
        low = int(least)
        high = int(most) if most else None if comma else low
        if low > REPEATS_MAX or (high is not None and not low <= high <= REPEATS_MAX):
            raise InvalidRegex(f"invalid repeat count: `{written}`")
        return low, high

    def _item(self, depth: int) -> list[Node]:
        """One item; a quoted text is one for each character, flags are none."""
        match character := self._next():
            case "(":
                return self._group(depth)
            case "[":
                return [self._bracketed()]
            case ".":
                return [Characters(every if self._dot_all else but_line_ends)]
            case "^":
                return [Assertion(Place.START)]
            case "$":
                return [Assertion(Place.END)]
            case "\\":
                return self._escaped()
            case _:
                return [self._literal(character)]

    def _group(self, depth: int) -> list[Node]:
        outside = self._ignore_case, self._dot_all
        if self._take("?"):
            start = self._at - 2
            if self._take("P<") or self._take("<"):
                self._name(start)
            elif not self._flags(start):
                return []
        node = self.choice(depth + 1)
        if not self._take(")"):
            raise InvalidRegex(f"missing closing ): `{self._text}`")
        self._ignore_case, self._dot_all = outside
        # A sequence of its own, so that a repetition that follows takes the group as a whole.
        return [Sequence((node,))]

    def _name(self, start: int) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, self._at)]
        if not name or not all(c == "_" or c in LETTERS_AND_DIGITS for c in name):
            written = self._text[start : end + 1] if end >= 0 else self._text[start:]
            raise InvalidRegex(f"invalid named capture: `{written}`")
        if name in self._names:
            raise InvalidRegex(f"duplicate capture group name: `{name}`")
        self._names.add(name)
        self._at = end + 1

    def _flags(self, start: int) -> bool:
        """Reads flags; whether a group follows them, or they hold for the rest of this one."""
        ignore_case, dot_all = self._ignore_case, self._dot_all
        on, any_since_sign = True, False
        while not self.at_end():
            match self._next():
                case "i":
                    ignore_case, any_since_sign = on, True
                case "s":
                    dot_all, any_since_sign = on, True
                case "m" | "U":
                    any_since_sign = True
                case "-" if on:
                    on, any_since_sign = False, False
                case ":" | ")" as end if on or any_since_sign:
                    self._ignore_case, self._dot_all = ignore_case, dot_all
                    return end == ":"
                case _:
                    break
        written = self._text[start : self._at]
        raise InvalidRegex(f"invalid or unsupported Perl syntax: `{written}`")

    def _escaped(self) -> list[Node]:
        if self._take("Q"):
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
            self._at = len(self._text) if end < 0 else end + 2
            return [self._literal(character) for character in quoted]
        following = self._text[self._at : self._at + 1]
        if following in ESCAPED_PLACES:
            self._at += 1
            return [Assertion(ESCAPED_PLACES[following])]
        named = self._named_set()
        if named is not None:
            return [Characters(named)]
        return [self._literal(self._escaped_character())]

    def _literal(self, character: str) -> Characters:
        return Characters(between(character, character, ignore_case=self._ignore_case))

    def _named_set(self) -> Members | None:
        """After a backslash: \\d and its like, or a category or script of Unicode."""
        following = self._text[self._at : self._at + 1]
        if following in PERL_SETS:
            self._at += 1
            return PERL_SETS[following]
        if not (self._take("p") or self._take("P")):
            return None
        is_negated = following == "P"
        name = self._text[self._at : self._at + 1]
        self._at += 1
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
            if name.startswith("^"):
                is_negated, name = not is_negated, name[1:]
        return named_unicode_set(name, ignore_case=self._ignore_case, is_negated=is_negated)

    def _escaped_character(self) -> str:
        """After a backslash: the one character that it stands for."""
        start = self._at - 1
        if self.at_end():
            raise InvalidRegex("trailing backslash at end of expression")
        character = self._next()
        if character in ESCAPED_CONTROLS:
            return ESCAPED_CONTROLS[character]
        following = self._text[self._at : self._at + 1]
        if character == "x":
            code = self._hexadecimal()
            if code is not None:
                return chr(code)
        elif character == "0" or (character in "1234567" and following and following in "01234567"):
            digits = character
            while len(digits) < 3 and not self.at_end() and self._text[self._at] in "01234567":
                digits += self._next()
            return chr(int(digits, 8))
        elif character not in LETTERS_AND_DIGITS:
            return character
        raise InvalidRegex(f"invalid escape sequence: `{self._text[start : self._at]}`")

    def _hexadecimal(self) -> int | None:
        """Two digits, or any number of them in braces."""
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            self._at = max(end + 1, self._at)
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += len(digits)
            if len(digits) != 2:
                return None
        if not digits or not HEX_DIGITS.issuperset(digits):
            return None
        code = int(digits.lstrip("0")[:8] or "0", 16)
        return code if code <= CODE_POINT_MAX else None

    def _bracketed(self) -> Characters:
        """Characters in brackets, after the opening one."""
        start = self._at - 1
        is_negated = self._take("^")
        named: list[Members] = []
        ranges: list[tuple[str, str]] = []
        first = True
        while first or not self._text.startswith("]", self._at):
            first = False
            if self.at_end():
                raise InvalidRegex(f"missing closing ]: `{self._text[start:]}`")
            part = self._bracketed_name()
            if part is None:
                ranges.append(self._bracketed_range(start))
            else:
                named.append(part)
            self._bracketed_parts += 1
            if self._bracketed_parts > REGEX_NODES_MAX:
                raise InvalidRegex(f"expression has more than {REGEX_NODES_MAX} parts")
        self._at += 1
        sets = list(dict.fromkeys(named))
        if ranges:
            sets.append(in_ranges(ranges, ignore_case=self._ignore_case))
        found = any_of(sets)
        return Characters(negated(found) if is_negated else found, sets=len(sets))

    def _bracketed_name(self) -> Members | None:
        """A set with a name, if one stands here."""
        posix = self._posix_set()
        if posix is not None:
            return posix
        begin = self._at
        if self._take("\\"):
            named = self._named_set()
            if named is not None:
                return named
            self._at = begin
        return None

    def _bracketed_range(self, start: int) -> tuple[str, str]:
        """A character, or one to another."""
        begin = self._at
        first = last = self._bracketed_character(start)
        following = self._text[self._at : self._at + 2]
        if len(following) == 2 and following[0] == "-" and following[1] != "]":
            self._at += 1
            last = self._bracketed_character(start)
            if last < first:
                written = self._text[begin : self._at]
                raise InvalidRegex(f"invalid character class range: `{written}`")
        return first, last

    def _posix_set(self) -> Members | None:
        if not self._text.startswith("[:", self._at):
            return None
        end = self._text.find(":]", self._at + 2)
        if end < 0:
            return None
        name = self._text[self._at + 2 : end]
        plain_name = name.removeprefix("^")
        if plain_name not in POSIX_SETS:
            written = self._text[self._at : end + 2]
            raise InvalidRegex(f"invalid character class range: `{written}`")
        self._at = end + 2
        return posix_set(plain_name, ignore_case=self._ignore_case, is_negated=name.startswith("^"))

    def _bracketed_character(self, start: int) -> str:
        if self.at_end():
            raise InvalidRegex(f"missing closing ]: `{self._text[start:]}`")
        character = self._next()
        return self._escaped_character() if character == "\\" else character

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, expected: str) -> bool:
        """Passes over the text if it stands here."""
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True


def is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()
