"""The settings of the alerts that a node evaluates itself. Apache Kafka has none of them.

They are settings of the node like any other (`BrokerSettings.alerts` holds them).
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.identity import METADATA_TOPIC
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.listener import web_address
from penstock.model.settings.setting import (
    Setting,
    SettingType,
    declare,
    declared,
    flag,
    fraction,
    int32,
    int64,
    integer,
    long,
)
from penstock.model.topic_name import (
    INTERNAL_TOPICS,
    OWN_TOPICS_PREFIX,
    collision_key,
    topic_name_error,
)

ALERTS_TOPIC = f"{OWN_TOPICS_PREFIX}alerts"


def _topic(text: str) -> str | None:
    """None for an empty text: no topic is written. Names of internal topics are refused, and those
    that could not stand beside one: the node would make the topic, with its own partitions.
    """
    if not text:
        return None
    error = topic_name_error(text)
    if error is not None:
        raise ValueError(error)
    for internal in (*sorted(INTERNAL_TOPICS), METADATA_TOPIC):
        if collision_key(text) == collision_key(internal):
            raise ValueError(f"{internal} is an internal topic: alerts need one of their own")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """What is evaluated, how often, and where it is told."""

    penstock_alerts_enable: bool = flag(
        False, "Whether this node evaluates the built-in alerts and tells of them."
    )
    penstock_alerts_interval_ms: int = integer(
        10_000, "How often the alerts are evaluated.", int32(100)
    )
    penstock_alerts_topic: str | None = declare(
        ALERTS_TOPIC,
        SettingType.STRING,
        _topic,
        "The compacted topic that holds the alerts as records; empty: none.",
    )
    penstock_alerts_webhook_url: str | None = declare(
        None,
        SettingType.PASSWORD,  # such addresses often hold a token
        web_address,
        "Where each alert that fires or clears is sent, as JSON by HTTP POST; else nowhere.",
    )
    penstock_alerts_for_ms: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "How long every figure must be beyond its threshold before its alert fires; else each"
        " alert has its own time.",
    )
    penstock_alerts_clear_ms: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "How long every figure must be within its threshold before its alert clears; else each"
        " alert has its own time.",
    )
    penstock_alerts_lag_ms: int = long(
        300_000, "An alert fires when a group is further behind than this.", int64(0)
    )
    penstock_alerts_unattended_lag_ms: int = long(
        60_000,
        "An alert fires when a group without members is further behind than this.",
        int64(0),
    )
    penstock_alerts_disk_ratio: float = declare(
        0.8,
        SettingType.DOUBLE,
        fraction(0, 1),
        "An alert fires when a larger part than this of the disk of a log directory is used.",
    )
    penstock_alerts_transaction_ms: int = long(
        900_000, "An alert fires when a transaction is open for longer than this.", int64(0)
    )
    penstock_alerts_certificate_days: int = integer(
        14, "An alert fires when a listener's certificate ends in fewer days than this.", int32(0)
    )
    penstock_alerts_messages_per_second: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "An alert fires when more records a second than this are written to the partitions that"
        " this node leads; else never.",
    )
    penstock_alerts_produce_error_ratio: float = declare(
        0.01,
        SettingType.DOUBLE,
        fraction(0, 1),
        "An alert fires when produce requests have more errors than this part of their number.",
    )
    penstock_alerts_produce_ms: int = long(
        1_000,
        "An alert fires when one of 100 produce requests takes longer than this, by the next bound"
        " of the histogram: 524, 1,049, 2,097 ms and so on.",
        int64(0),
    )
    penstock_alerts_produce_window_ms: int = long(
        300_000,
        "Over the last so many milliseconds the errors and times of produce requests are"
        " counted for their alerts.",
        int64(1),
    )


ALERT_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(AlertSettings))
