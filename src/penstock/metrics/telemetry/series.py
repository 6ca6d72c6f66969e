"""What clients have pushed, as series for Prometheus.

A push is all that its client has to tell, so it takes the place of the one before; increases are
added up. Names and labels come from clients, who may send anything:

    names     begin with PREFIX, which no metric of ours does; what Prometheus does not take is `_`
    labels    who the client is comes from the broker; no attribute can take the place of that
    kinds     a name is a gauge or a counter in one scrape, not both: the first one counts
    bounds    TELEMETRY_SERIES_MAX in all, TELEMETRY_SERIES_PER_CLIENT_MAX of one client
    time      what a client pushed ends when the client has been silent for three intervals
"""

import math
import re
from collections.abc import Iterable

from penstock.metrics.family import TOTAL, Family, Kind, Steps
from penstock.metrics.telemetry.instances import Instance
from penstock.metrics.telemetry.otlp import Meaning, Point
from penstock.model.identity import id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import TELEMETRY_SERIES_MAX, TELEMETRY_TEXT_CHARS_MAX

PREFIX = "penstock_client_"
HELP = "Pushed by clients (KIP-714)."
OWN_LABELS = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
OF_HISTOGRAMS = ("le", "quantile")
OTHER_CHARACTERS = re.compile(r"[^a-zA-Z0-9_]")
# A gauge with such a name would be taken for a part of a counter.
ENDS_OF_COUNTERS = (TOTAL, "_created")
Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Kind, Labels]


@dataclass(slots=True)
class _Value:
    value: float
    is_added_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pushed:
    """By one client."""

    labels: Labels
    values: dict[Key, _Value]
    expires_ms: int


class ClientSeries:
    """Invariant: `count` is the number of values of all clients."""

    def __init__(self) -> None:
        self._by_client: dict[bytes, _Pushed] = {}
        self.count = 0
        self.left_out = 0  # values so far

    def take(
        self, instance_id: bytes, instance: Instance, points: Iterable[Point], *, now_ms: int
    ) -> None:
        before = self._remove(instance_id)
        values = {key: one for key, one in before.items() if one.is_added_up}
        room = TELEMETRY_SERIES_MAX - self.count
        for point in points:
            key = key_of(point)
            if key is None or (key not in values and len(values) >= room):
                self.left_out += 1
            elif point.meaning is not Meaning.INCREASE:
                values[key] = _Value(point.value, False)
            elif key in values:
                values[key].value += point.value
            else:
                values[key] = _Value(point.value, True)
        self.count += len(values)
        client = instance.client
        said = (client.client_id, id_text(instance_id), client.software_name)
        texts = map(label_value, (*said, client.software_version))
        labels = tuple(zip(OWN_LABELS, texts, strict=True))
        expires_ms = now_ms + instance.lifetime_ms
        self._by_client[instance_id] = _Pushed(labels=labels, values=values, expires_ms=expires_ms)

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
        assert self.count == sum(len(one.values) for one in self._by_client.values())
        assert 0 <= self.count <= TELEMETRY_SERIES_MAX

    def _remove(self, instance_id: bytes) -> dict[Key, _Value]:
        pushed = self._by_client.pop(instance_id, None)
        if pushed is None:
            return {}
        self.count -= len(pushed.values)
        return pushed.values


def key_of(point: Point) -> Key | None:
    """None for what is no metric: without a name, or a counter that is no number or negative."""
    if not point.name or len(point.name) > TELEMETRY_TEXT_CHARS_MAX:
        return None
    name = PREFIX + OTHER_CHARACTERS.sub("_", point.name)
    labels: dict[str, str] = {}
    for key, text in point.attributes.items():
        label = label_name(key)
        if label not in OWN_LABELS and text:  # an empty label is none
            labels[label] = label_value(text)
    own = tuple(sorted(labels.items()))
    if point.meaning is Meaning.GAUGE:
        return (name + "_value" if name.endswith(ENDS_OF_COUNTERS) else name), Kind.GAUGE, own
    if not math.isfinite(point.value) or point.value < 0:
        return None
    return name.removesuffix(TOTAL) + TOTAL, Kind.COUNTER, own


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
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown
    )
