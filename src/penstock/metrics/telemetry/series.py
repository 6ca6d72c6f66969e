"""What clients have pushed, as series for Prometheus.

A push is all that its client has to tell, so it takes the place of the one before; increases are
added up. Names and labels come from clients, who may send anything:

    names     begin with PREFIX, which no metric of ours does; what Prometheus does not take is `_`
    labels    who the client is comes from the broker; no attribute can take the place of that
    kinds     a name is a gauge or a counter in one scrape, not both: the first one counts
    bounds    TELEMETRY_SERIES_MAX in all, TELEMETRY_SERIES_PER_CLIENT_MAX of one client;
              TELEMETRY_SERIES_BYTES_MAX of one series, TELEMETRY_BYTES_MAX in all, since each line
              of a scrape has all labels: those of the client and of the resource are sent once
    time      what a client pushed ends when the client has been silent for three intervals
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from penstock.metrics.family import TOTAL, Family, Kind, Steps
from penstock.metrics.telemetry.instances import Instance
from penstock.metrics.telemetry.otlp import NO_ATTRIBUTES, Attributes, Meaning, Point
from penstock.model.identity import id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import (
    TELEMETRY_BYTES_MAX,
    TELEMETRY_SERIES_BYTES_MAX,
    TELEMETRY_SERIES_MAX,
    TELEMETRY_SERIES_PER_CLIENT_MAX,
    TELEMETRY_TEXT_CHARS_MAX,
)

PREFIX = "penstock_client_"
HELP = "Pushed by clients (KIP-714)."
OWN_LABELS = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
OF_HISTOGRAMS = ("le", "quantile")
OTHER_CHARACTERS = re.compile(r"[^a-zA-Z0-9_]")
# A metric with such a name would be taken for a part of a counter.
ENDS_OF_COUNTERS = (TOTAL, "_created")
Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Kind, Labels]


@dataclass(slots=True)
class _Value:
    value: float
    is_added_up: bool
    size_bytes: int  # of its name and its own labels


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pushed:
    """By one client."""

    labels: Labels
    values: dict[Key, _Value]
    size_bytes: int  # of all names and labels, as often as a scrape has them
    expires_ms: int


class ClientSeries:
    """Invariants: 1. `count` is the number of values of all clients, and `size_bytes` the size of
    their names and labels. 2. Who is kept has a value, so `count` bounds the clients too.
    """

    def __init__(self) -> None:
        self._by_client: dict[bytes, _Pushed] = {}
        self.count = 0
        self.size_bytes = 0
        self.left_out = 0  # values so far

    @property
    def clients(self) -> int:
        return len(self._by_client)

    def take(
        self, instance_id: bytes, instance: Instance, points: Iterable[Point], *, now_ms: int
    ) -> Iterator[None]:
        """Each point and each attribute is a step. What others see changes after the last one, all
        at once.
        """
        pushed: dict[Key, _Value] = {}
        shared, shared_labels = NO_ATTRIBUTES, labels_of(NO_ATTRIBUTES)
        for point in points:
            for _ in range(1 + len(point.attributes)):
                yield
            if point.shared is not shared:
                shared, shared_labels = point.shared, labels_of(point.shared)
            key = key_of(point, shared_labels)
            size_bytes = 0 if key is None else size_of(key[0], key[2])
            if key is None or size_bytes > TELEMETRY_SERIES_BYTES_MAX:
                self.left_out += 1
            elif point.meaning is not Meaning.INCREASE:
                pushed[key] = _Value(point.value, False, size_bytes)
            elif key in pushed:
                pushed[key].value += point.value
            else:
                pushed[key] = _Value(point.value, True, size_bytes)
        self._replace(instance_id, instance, pushed, now_ms)

    def expire(self, *, now_ms: int) -> None:
        for one in [one for one, it in self._by_client.items() if it.expires_ms <= now_ms]:
            self._remove(one)

    def samples(self) -> Steps:
        kinds: dict[str, Kind] = {}
        families: dict[tuple[str, tuple[str, ...]], Family] = {}
        for pushed in list(self._by_client.values()):
            for (name, kind, own), one in list(pushed.values.items()):
                if kinds.setdefault(name.removesuffix(TOTAL), kind) is not kind:
                    yield None
                    continue
                labels = pushed.labels + own
                names = tuple(label for label, _ in labels)
                family = families.get((name, names))
                if family is None:
                    family = Family(name=name, kind=kind, help=HELP, labels=names)
                    families[name, names] = family
                yield family.sample(one.value, *(text for _, text in labels))

    def check(self) -> None:
        kept = self._by_client.values()
        assert self.count == sum(len(one.values) for one in kept)
        assert self.size_bytes == sum(one.size_bytes for one in kept)
        assert 0 <= self.count <= TELEMETRY_SERIES_MAX
        assert 0 <= self.size_bytes <= TELEMETRY_BYTES_MAX
        assert all(one.values for one in kept)

    def _replace(
        self, instance_id: bytes, instance: Instance, pushed: dict[Key, _Value], now_ms: int
    ) -> None:
        values = {key: one for key, one in self._remove(instance_id).items() if one.is_added_up}
        for key, one in pushed.items():
            if one.is_added_up and key in values:
                values[key].value += one.value
            else:
                values[key] = one
        labels = labels_of_client(instance_id, instance)
        each_bytes = size_of("", labels)
        room = min(TELEMETRY_SERIES_PER_CLIENT_MAX, TELEMETRY_SERIES_MAX - self.count)
        room_bytes = TELEMETRY_BYTES_MAX - self.size_bytes
        kept: dict[Key, _Value] = {}
        kept_bytes = 0
        for key, one in values.items():
            size_bytes = kept_bytes + each_bytes + one.size_bytes
            if len(kept) >= room or size_bytes > room_bytes:
                self.left_out += 1
                continue
            kept[key] = one
            kept_bytes = size_bytes
        if not kept:
            return
        self.count += len(kept)
        self.size_bytes += kept_bytes
        self._by_client[instance_id] = _Pushed(
            labels=labels,
            values=kept,
            size_bytes=kept_bytes,
            expires_ms=now_ms + instance.lifetime_ms,
        )

    def _remove(self, instance_id: bytes) -> dict[Key, _Value]:
        pushed = self._by_client.pop(instance_id, None)
        if pushed is None:
            return {}
        self.count -= len(pushed.values)
        self.size_bytes -= pushed.size_bytes
        return pushed.values


def key_of(point: Point, shared: Mapping[str, str]) -> Key | None:
    """None for what is no metric: without a name, or a counter that is no number or negative."""
    if not point.name or len(point.name) > TELEMETRY_TEXT_CHARS_MAX:
        return None
    name = PREFIX + OTHER_CHARACTERS.sub("_", point.name)
    labels = {**shared, **labels_of(point.attributes)}
    own = tuple(sorted((label, text) for label, text in labels.items() if text))
    if point.meaning is not Meaning.GAUGE:
        name = name.removesuffix(TOTAL)
    if name.endswith(ENDS_OF_COUNTERS):
        name += "_value"
    if point.meaning is Meaning.GAUGE:
        return name, Kind.GAUGE, own
    if not math.isfinite(point.value) or point.value < 0:
        return None
    return name + TOTAL, Kind.COUNTER, own


def labels_of(attributes: Attributes) -> dict[str, str]:
    """An empty one is no label; it takes the place of a shared one all the same."""
    named = ((label_name(key), text) for key, text in attributes.items())
    return {label: label_value(text) for label, text in named if label not in OWN_LABELS}


def labels_of_client(instance_id: bytes, instance: Instance) -> Labels:
    client = instance.client
    said = (client.client_id, id_text(instance_id), client.software_name, client.software_version)
    return tuple(zip(OWN_LABELS, map(label_value, said), strict=True))


def size_of(name: str, labels: Labels) -> int:
    return len(name) + sum(len(label) + len(text.encode()) for label, text in labels)


def label_name(text: str) -> str:
    """A name that Prometheus takes; those that mean something to it are changed."""
    name = OTHER_CHARACTERS.sub("_", text[:TELEMETRY_TEXT_CHARS_MAX])
    if not name or name[0].isdigit() or name.startswith("__") or name in OF_HISTOGRAMS:
        return f"attribute_{name}"
    return name


def label_value(text: str) -> str:
    """On one line, and no longer than it may be."""
    shown = text[:TELEMETRY_TEXT_CHARS_MAX]
    if shown.isprintable():
        return shown
    escaped = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )
    return escaped[:TELEMETRY_TEXT_CHARS_MAX]
