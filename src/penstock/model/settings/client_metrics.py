"""The settings of one subscription to the metrics of clients (KIP-714): Apache Kafka's three.

    interval.ms   how often a client pushes
    metrics       which ones, by the beginnings of their names; `*` is all of them
    match         which clients: `client_id=order-.*,client_software_name=librdkafka`

A subscription is a resource of the kind CLIENT_METRICS. Patterns have the syntax of RE2, which has
all of Java's but look-around and references, and are matched in linear time (ADR 30).
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import (
    TELEMETRY_PATTERN_NODES_MAX,
    TELEMETRY_PATTERN_STEPS_MAX,
    TELEMETRY_TEXT_CHARS_MAX,
)
from penstock.model.regex.pattern import Effort, Pattern, compile_pattern
from penstock.model.regex.syntax import InvalidRegex
from penstock.model.settings.setting import (
    Change,
    InvalidSetting,
    Parse,
    Setting,
    SettingType,
    int32,
    items,
    parse_all,
)

INTERVAL, METRICS, MATCH = "interval.ms", "metrics", "match"
INTERVAL_MS_DEFAULT, INTERVAL_MS_MIN, INTERVAL_MS_MAX = 300_000, 100, 3_600_000
ALL_METRICS = "*"
# What a pattern can be about: the attributes of a client.
MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class IntervalOutOfRange(InvalidSetting):
    """Apache Kafka has an error code of its own for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, Pattern]  # by what they are about; without any it is for all clients

    def is_for(self, attributes: Mapping[str, str]) -> bool:
        """Whether every pattern matches, of a long attribute its beginning. TooManySteps when that
        is not known within the bound, which is for this subscription alone: one that is costly
        does not keep clients from the others.
        """
        effort = Effort(left=TELEMETRY_PATTERN_STEPS_MAX)
        return all(
            pattern.matching((attributes[about][:TELEMETRY_TEXT_CHARS_MAX],), effort)
            for about, pattern in self.match.items()
        )


def parse_subscription(config: Mapping[str, str]) -> Subscription:
    """InvalidSetting when a subscription cannot have these settings."""
    parsed = parse_all(config, CLIENT_METRICS_SETTINGS, kind="client metrics")
    interval_ms = parsed.get("interval_ms", INTERVAL_MS_DEFAULT)
    metrics, match = parsed.get("metrics", ()), parsed.get("match", {})
    assert isinstance(interval_ms, int) and isinstance(metrics, tuple) and isinstance(match, dict)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise IntervalOutOfRange(
            name=INTERVAL,
            value=config[INTERVAL],
            expected=f"Value must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
    return Subscription(metrics=frozenset(metrics), interval_ms=interval_ms, match=match)


def _patterns(text: str) -> dict[str, Pattern]:
    patterns: dict[str, Pattern] = {}
    for item in items(text):
        about, *rest = item.rstrip("=").split("=")
        if len(rest) != 1 or about.strip() not in MATCHED:
            raise ValueError(f"{item!r} is not name=pattern with a name of {', '.join(MATCHED)}")
        try:
            patterns[about.strip()] = compile_pattern(
                rest[0].strip(), nodes_max=TELEMETRY_PATTERN_NODES_MAX
            )
        except InvalidRegex as error:
            raise ValueError(f"{item!r}: {error}") from error
    return patterns


def _setting(name: str, type: SettingType, default: str, parse: Parse, doc: str) -> Setting:
    return Setting(
        name=name,
        type=type,
        default=default,
        doc=doc,
        parse_text=parse,
        change=Change.CLUSTER_WIDE,
    )


CLIENT_METRICS_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            _setting(
                INTERVAL,
                SettingType.INT,
                str(INTERVAL_MS_DEFAULT),
                int32(),
                "How often a client pushes: 100 ms to an hour; above 5 minutes counts as 5.",
            ),
            _setting(
                MATCH,
                SettingType.LIST,
                "",
                _patterns,
                "Which clients push: a list of name=pattern, all of which match; else all clients.",
            ),
            _setting(
                METRICS,
                SettingType.LIST,
                "",
                items,
                "Which metrics they push: a list of beginnings of names; * for all.",
            ),
        )
    }
)
