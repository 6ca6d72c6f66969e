"""One line of JAAS configuration, as Kafka's settings hold it: `MODULE FLAG name="value" ...;`

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin"
        password="secret" user_admin="secret" user_alice="alice-secret";

Of the module only the last part of its name counts. Errors do not quote values: they are secrets.
"""

import re
from collections.abc import Mapping
from dataclasses import field

from penstock.model.lazy_dataclass import dataclass

FLAGS = ("required", "requisite", "sufficient", "optional")
WORD = r"[A-Za-z_$][\w.$-]*"
TOKEN = re.compile(
    rf"""\s*(?:(?P<pair>(?P<name>{WORD})\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s"';]+)))"""
    rf"""|(?P<word>{WORD})|(?P<end>;))""",
    re.DOTALL,
)
USER_PREFIX = "user_"


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasEntry:
    """A login module and its options."""

    module: str  # without its package
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, of `user_NAME="PASSWORD"`."""
        return {
            name.removeprefix(USER_PREFIX): value
            for name, value in self.options.items()
            if name.startswith(USER_PREFIX)
        }


def parse_jaas(text: str) -> JaasEntry:
    """ValueError, without a word of the text, when it is no such line."""
    words: list[str] = []
    options: dict[str, str] = {}
    position, ended = 0, False
    stripped = text.strip()
    while position < len(stripped):
        found = TOKEN.match(stripped, position)
        if found is None or ended:
            raise ValueError(f"Expected {EXPECTED}; character {position} is unexpected")
        position = found.end()
        if found["end"] is not None:
            ended = True
        elif found["word"] is not None:
            words.append(found["word"])
            if options:
                raise ValueError(f"Expected {EXPECTED}; a word stands after the options")
        else:
            name = found["name"]
            if name in options:
                raise ValueError("An option appears twice")
            options[name] = _value(found)
    if not ended:
        raise ValueError("The line must end in a semicolon")
    if len(words) != 2 or words[1].lower() not in FLAGS:
        raise ValueError(f"Expected {EXPECTED}")
    return JaasEntry(module=words[0].rpartition(".")[2], options=options)


EXPECTED = 'MODULE required NAME="VALUE" ...;'


def _value(found: re.Match[str]) -> str:
    quoted = found["double"] if found["double"] is not None else found["single"]
    if quoted is None:
        return found["bare"]
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
