"""`ssl.principal.mapping.rules`: from the name in a client's certificate to the name of a user.

    RULE:^CN=(.*?),OU=Shop.*$/$1/L, RULE:^.*CN=(.*?),.*$/$1/, DEFAULT

The first rule whose pattern matches the whole name decides: its replacement, with `$1` for groups,
in lower (L) or upper (U) case if it says so. DEFAULT is the name itself. Slashes within a rule are
escaped, as `\\/`. A name that no rule matches has no user, and the client is refused, as in Kafka.
"""

import re
from enum import Enum

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass

# One rule and what ends it. The pattern and its replacement hold no slash that is not escaped.
RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,\s*|$)"
)
EXPECTED = "Each rule must be DEFAULT, or look like RULE:pattern/replacement/ with an L or U after"
# Java's spelling of a named group; `(?<=` and `(?<!` mean the same to both.
NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
REFERENCE = re.compile(r"\\(?P<escaped>.)|\$(?P<number>[0-9])|\$\{(?P<name>[A-Za-z0-9]+)\}")


class Case(Enum):
    KEPT = ""
    LOWER = "L"
    UPPER = "U"


class NoRuleMatches(PenstockError):
    """A client whose certificate has a name that the rules leave out."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no rule of ssl.principal.mapping.rules matches {name}")
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`pattern` None is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: Case

    def apply(self, name: str) -> str | None:
        """The user; None if the pattern does not match."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        user = REFERENCE.sub(lambda reference: _referred(reference, found), self.replacement)
        match self.case:
            case Case.LOWER:
                return user.lower()
            case Case.UPPER:
                return user.upper()
            case Case.KEPT:
                return user


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules in their order; ValueError, with what would be right, if the text has others."""
    rules: list[Rule] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = RULE.match(text, position)
        if found is None:
            raise ValueError(f"{EXPECTED}; {text[position:]!r} does not")
        rules.append(_rule(found))
        position = found.end()
    return tuple(rules) or parse_rules("DEFAULT")


def user_of(name: str, rules: tuple[Rule, ...]) -> str:
    """The user that a distinguished name stands for; raises NoRuleMatches."""
    for rule in rules:
        user = rule.apply(name)
        if user is not None:
            return user
    raise NoRuleMatches(name)


def _rule(found: re.Match[str]) -> Rule:
    if found["default"] is not None:
        return Rule(pattern=None, replacement="", case=Case.KEPT)
    pattern = NAMED_GROUP.sub("(?P<", found["pattern"])
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{found['pattern']!r} is no regular expression: {error}") from None
    rule = Rule(pattern=compiled, replacement=found["replacement"], case=Case(found["case"]))
    for reference in REFERENCE.finditer(rule.replacement):
        number, name = reference["number"], reference["name"]
        if number is not None and int(number) > compiled.groups:
            raise ValueError(f"{found['pattern']!r} has no group {number}")
        if name is not None and name not in compiled.groupindex:
            raise ValueError(f"{found['pattern']!r} has no group {name}")
    return rule


def _referred(reference: re.Match[str], found: re.Match[str]) -> str:
    if reference["escaped"] is not None:
        return reference["escaped"]
    if reference["number"] is not None:
        return found[int(reference["number"])] or ""
    return found[reference["name"]] or ""
