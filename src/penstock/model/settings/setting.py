"""What one setting is: name, type, default, bounds and a sentence; text in, typed value out.

Settings are declared once, as the fields of `TopicSettings` and `BrokerSettings`: the field's name
is Kafka's with dots for underscores, its default is Kafka's, and the `Setting` rides along as the
field's metadata. A value is parsed once, here, and trusted from then on; a wrong one is an
`InvalidSetting` that says what would be right. A topic setting also names the broker settings that
hold its default; settings that Apache Kafka does not have begin with `OWN_PREFIX`.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum, IntEnum
from typing import Any, NamedTuple, TypeVar

from penstock.model.error import PenstockError
from penstock.model.lazy_dataclass import dataclass

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
OWN_PREFIX = "penstock."  # of the settings that Apache Kafka does not have
DOUBLE_MAX = 1.7976931348623157e308
TYPO_LIKENESS_MIN = 0.85  # names of another product's settings share a few words at most

Value = TypeVar("Value")
Parse = Callable[[str], object]


class SettingType(IntEnum):
    """The types that DescribeConfigs names, by its numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Change(Enum):
    """How a broker's setting may change: by restart, on one running broker, or on all too."""

    AT_START = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidSetting(PenstockError):
    """A value that a setting cannot have, and what it could have."""

    def __init__(self, *, name: str, value: str | None, expected: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {expected}")
        self.name = name
        self.value = value
        self.expected = expected


class HiddenValue(ValueError):
    """What is wrong with a text that seems to hold a secret: it is not shown."""


class MissingSetting(InvalidSetting):
    """A setting that others need, and what it should be."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(name=name, value=None, expected=expected)
        self.args = (f"Missing configuration {name}: {expected}",)


class UnknownSetting(InvalidSetting):
    """A name that no setting has; `kind` says where it was looked for."""

    def __init__(self, *, kind: str, name: str, known: Collection[str]) -> None:
        nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
        hint = f" (did you mean {nearest[0]}?)" if nearest else ""
        self.is_likely_typo = bool(nearest) and _likeness(name, nearest[0]) >= TYPO_LIKENESS_MIN
        super().__init__(name=name, value=None, expected=f"a known {kind} config name{hint}")
        self.args = (f"Unknown {kind} config name: {name}{hint}",)


def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(a=name, b=other).ratio()


class ServerName(NamedTuple):
    """A broker setting that holds the default of a topic setting."""

    name: str
    factor: int = 1  # from its unit to that of the topic setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting; `effective` is false when it is accepted and listed but changes nothing."""

    name: str
    type: SettingType
    default: str | None
    doc: str
    parse_text: Parse
    change: Change = Change.AT_START
    effective: bool = True
    internal: bool = False  # accepted, but listed only where it was set
    servers: tuple[ServerName, ...] = ()  # of a topic setting; the first that has a value counts

    @property
    def own(self) -> bool:
        """Whether Penstock adds it to Apache Kafka's settings."""
        return self.name.startswith(OWN_PREFIX)

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        return self.type == SettingType.PASSWORD

    def parse(self, text: str) -> object:
        """The typed value; InvalidSetting, with this setting's name, when the text is none."""
        try:
            return self.parse_text(text.strip())
        except ValueError as error:
            is_hidden = self.sensitive or isinstance(error, HiddenValue)
            shown = "[hidden]" if is_hidden else text
            raise InvalidSetting(name=self.name, value=shown, expected=str(error)) from None


def declare(
    default: Value,
    type: SettingType,
    parse: Parse,
    doc: str,
    *,
    change: Change = Change.AT_START,
    effective: bool = True,
    internal: bool = False,
    servers: tuple[ServerName, ...] = (),
) -> Value:
    """A dataclass field that carries its Setting; `declared` gives it its name."""
    setting = Setting(
        name="",
        type=type,
        default=text_of(default),
        doc=doc,
        parse_text=parse,
        change=change,
        effective=effective,
        internal=internal,
        servers=servers,
    )
    # Not shown, if it is a secret.
    return dataclasses.field(
        default=default, repr=not setting.sensitive, metadata={"setting": setting}
    )


def integer(
    default: int,
    doc: str,
    parse: Parse | None = None,
    change: Change = Change.AT_START,
    *,
    effective: bool = True,
) -> int:
    return declare(
        default, SettingType.INT, parse or int32(), doc, change=change, effective=effective
    )


def long(
    default: int,
    doc: str,
    parse: Parse | None = None,
    change: Change = Change.AT_START,
    *,
    effective: bool = True,
) -> int:
    return declare(
        default, SettingType.LONG, parse or int64(), doc, change=change, effective=effective
    )


def flag(
    default: bool, doc: str, change: Change = Change.AT_START, *, effective: bool = True
) -> bool:
    return declare(default, SettingType.BOOLEAN, boolean, doc, change=change, effective=effective)


def declared(settings: type[Any]) -> dict[str, Setting]:
    """The settings that a dataclass declares, by Kafka's names, in alphabetical order."""
    found = {
        field.name.replace("_", "."): field.metadata["setting"]
        for field in dataclasses.fields(settings)
        if "setting" in field.metadata
    }
    return {name: dataclasses.replace(found[name], name=name) for name in sorted(found)}


def parse_all(
    values: Mapping[str, str], settings: Mapping[str, Setting], *, kind: str
) -> dict[str, object]:
    """Typed values by field name; the first unknown name or wrong value raises InvalidSetting."""
    parsed: dict[str, object] = {}
    for name, text in values.items():
        setting = settings.get(name)
        if setting is None:
            raise UnknownSetting(kind=kind, name=name, known=settings.keys())
        parsed[setting.field] = setting.parse(text)
    return parsed


def text_of(value: object) -> str | None:
    """A value as a properties file would hold it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        return ",".join(sorted(str(item) for item in value))
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    if isinstance(value, float):
        return str(value).replace("e+", "E").replace("e", "E")  # as Java writes it
    return str(value)


def boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def whole(least: int | None = None, most: int | None = None, *, also: int | None = None) -> Parse:
    """A whole number within bounds, or the one value `also` that stands for something else."""

    def parse(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise ValueError("Not a whole number")
        number = int(text)
        if number == also:
            return number
        if least is not None and number < least:
            raise ValueError(f"Value must be at least {least}")
        if most is not None and number > most:
            raise ValueError(f"Value must be no more than {most}")
        return number

    return parse


def int32(least: int | None = None, most: int = INT_MAX, *, also: int | None = None) -> Parse:
    return whole(-INT_MAX - 1 if least is None else least, most, also=also)


def int64(least: int | None = None, most: int = LONG_MAX) -> Parse:
    return whole(-LONG_MAX - 1 if least is None else least, most)


def fraction(least: float | None = None, most: float | None = None) -> Parse:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise ValueError("Not a number") from None
        if number != number:
            raise ValueError("Not a number")
        if least is not None and number < least:
            raise ValueError(f"Value must be at least {least:g}")
        if most is not None and number > most:
            raise ValueError(f"Value must be no more than {most:g}")
        return number

    return parse


def any_text(text: str) -> str:
    return text


def one_of(*words: str) -> Parse:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"String must be one of: {', '.join(words)}")
        return text

    return parse


def items(text: str) -> tuple[str, ...]:
    """A comma-separated list; an empty text is an empty list."""
    return tuple(item.strip() for item in text.split(",")) if text else ()


def items_of(*words: str) -> Parse:
    def parse(text: str) -> frozenset[str]:
        found = items(text)
        for word in found:
            if word not in words:
                raise ValueError(f"String must be one of: {', '.join(words)}")
        if len(set(found)) != len(found):
            raise ValueError("Duplicate values are not allowed")
        return frozenset(found)

    return parse
