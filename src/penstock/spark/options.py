"""The options of the format "penstock", by the names that Spark's own Kafka source and sink use.

Spark's options have no case, and neither have these. What nobody knows is refused, with the name
that was probably meant: an option that is not obeyed is found out too late. Options `kafka.*` are
settings of a Kafka client, of which there are hundreds: those that mean something here are obeyed,
and whoever is told others is told their names (`unheeded`). Which options there are stands in
source/options.py and sink/options.py.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.client.network.client_security import SASL_SETTINGS
from penstock.model.error import PenstockError
from penstock.model.settings.tls import TLS_SETTINGS

BOOTSTRAP = "kafka.bootstrap.servers"
KAFKA = "kafka."
CONFIG_FILE = "configFile"  # it stands for what is in a file: config_file.py
CHECKPOINT = "checkpointLocation"
SINK_ID = "sinkId"
# Spark adds these itself, or obeys them itself.
SPARKS = ("path", CHECKPOINT, "queryName")

# What a Kafka client may be told, and a source or sink of Spark decides itself.
RESERVED = {
    "kafka.auto.offset.reset": "say where to begin with startingOffsets",
    "kafka.enable.auto.commit": "the checkpoint of a query holds its offsets",
    "kafka.interceptor.classes": "there are no classes to load",
    "kafka.key.deserializer": "keys are read as bytes, for functions of a DataFrame to parse",
    "kafka.value.deserializer": "values are read as bytes, for functions of a DataFrame to parse",
    "kafka.key.serializer": "keys are written as they are, made by functions of a DataFrame",
    "kafka.value.serializer": "values are written as they are, made by functions of a DataFrame",
    "kafka.transactional.id": "the sink makes its own from sinkId",
}

# Settings of clients that source and sink both obey, without `kafka.`; each adds its own.
HEEDED = (
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "request.timeout.ms",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    *SASL_SETTINGS,
    *TLS_SETTINGS,
)
SECURITY = ("kafka.sasl.", "kafka.ssl.")

# Names that are found at other clients, and what they are called here: the first that there is.
MEANT_BY = {
    "bootstrap": (BOOTSTRAP,),
    "brokers": (BOOTSTRAP,),
    "servers": (BOOTSTRAP,),
    "topic": ("subscribe",),
    "topics": ("subscribe", "topic"),
    "subscribe": ("topic",),
}
# How alike a setting must be to one that is obeyed: clients have many with similar names.
ALIKE_ENOUGH = 0.9

Value = TypeVar("Value")


class BadOption(PenstockError):
    """An option that cannot be obeyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How the brokers are reached: what stands behind `kafka.`, by the names without it."""

    bootstrap: str
    kafka: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # secrets are among them

    def setting(self, name: str) -> str | None:
        return dict(self.kafka).get(name)

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        told = self.setting(name)
        return default if told is None else _number(f"{KAFKA}{name}", told, least=least)


@dataclass(frozen=True, slots=True)
class Given:
    """Options that are known, by their names as documented; each is read as what it should be."""

    values: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str | None:
        told = self.values.get(name)
        if told is not None and not told.strip():
            raise BadOption(f"option {name} is empty")
        return told

    def names(self, name: str) -> tuple[str, ...] | None:
        """Of a list with commas: each once, and at least one."""
        told = self.values.get(name)
        if told is None:
            return None
        found = tuple(dict.fromkeys(part.strip() for part in told.split(",") if part.strip()))
        if not found:
            raise BadOption(f"option {name} is empty")
        return found

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, default)

    def choice(self, name: str, values: Mapping[str, Value], default: Value) -> Value:
        """One of the values, by its name in lower case."""
        told = self.values.get(name)
        if told is None:
            return default
        if told.strip().lower() not in values:
            raise BadOption(f"option {name} is {told!r}: it can be {' or '.join(values)}")
        return values[told.strip().lower()]

    def number(self, name: str, *, least: int = 1) -> int | None:
        return None if name not in self else _number(name, self.values[name], least=least)

    def connection(self) -> ConnectionOptions:
        bootstrap = self.text(BOOTSTRAP)
        if bootstrap is None:
            for name in difflib.get_close_matches(BOOTSTRAP, self.values, n=1):
                raise BadOption(f"there is no option {name}: did you mean {BOOTSTRAP}?")
            raise BadOption(f"option {BOOTSTRAP} is missing: HOST:PORT[,HOST:PORT...]")
        for name in sorted(self.values):
            if name.startswith(SECURITY) and f"{KAFKA}security.protocol" not in self:
                raise BadOption(f"option {name} has no effect without {KAFKA}security.protocol")
        settings = sorted(
            (name.removeprefix(KAFKA), value)
            for name, value in self.values.items()
            if name.startswith(KAFKA) and name != BOOTSTRAP
        )
        return ConnectionOptions(bootstrap=bootstrap, kafka=tuple(settings))


def given(
    options: Mapping[str, str], *, known: tuple[str, ...], heeded: tuple[str, ...] = ()
) -> Given:
    """The options, each of them `known`, one of Spark's own, or a client's; BadOption otherwise.
    `heeded` are those of a client that have an effect, beside HEEDED.
    """
    spelling = {name.lower(): name for name in (*known, *SPARKS)}
    found = {}
    for told, value in options.items():
        name = told.lower()
        if name in RESERVED:
            raise BadOption(f"option {name} can't be given: {RESERVED[name]}")
        if name not in spelling and not name.startswith(KAFKA):
            meant = _meant(name, spelling, heeded=(*HEEDED, *heeded))
            raise BadOption(f"there is no option {told}{_guess(meant)}")
        found[spelling.get(name, name)] = value
    return Given(found)


def unheeded(options: Mapping[str, str], *, heeded: tuple[str, ...]) -> list[str]:
    """Which settings of a Kafka client change nothing, as they were written, each with the one that
    was probably meant.
    """
    known = {f"{KAFKA}{name}" for name in (*HEEDED, *heeded)}
    found = []
    for told in sorted(options):
        name = told.lower()
        if name.startswith(KAFKA) and name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=ALIKE_ENOUGH)
            found.append(f"{told} (did you mean {close[0]}?)" if close else told)
    return found


def _meant(name: str, spelling: Mapping[str, str], *, heeded: tuple[str, ...]) -> str | None:
    """What someone may have wanted to write."""
    if name in heeded:
        return f"{KAFKA}{name}"
    for meant in MEANT_BY.get(name, ()):
        if meant == BOOTSTRAP or meant in spelling:
            return meant
    close = difflib.get_close_matches(name, [*spelling, BOOTSTRAP], n=1)
    return spelling.get(close[0], close[0]) if close else None


def _guess(meant: str | None) -> str:
    return "" if meant is None else f": did you mean {meant}?"


def _number(name: str, told: str, *, least: int) -> int:
    text = told.strip()
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise BadOption(f"option {name} is {told!r}: it must be a whole number from {least} on")
    return int(text)
