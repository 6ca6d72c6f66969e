"""The settings that one group can have of its own: every one of Apache Kafka 4.3.

What a group does not set is the broker's: `consumer.session.timeout.ms` of a group is else
`group.consumer.session.timeout.ms` (`server_name`). What it sets has to lie within the broker's
bounds: `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.

Those of `share.` and `streams.` groups are accepted and shown; there are no such groups here.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from penstock.model.settings.broker import BROKER_SETTINGS, BrokerSettings
from penstock.model.settings.groups import GroupSettings
from penstock.model.settings.setting import (
    Change,
    InvalidSetting,
    Parse,
    Setting,
    SettingType,
    boolean,
    int32,
    one_of,
    parse_all,
)

T = SettingType
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
DURATION = re.compile(r"by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.I)
KINDS = ("consumer", "share", "streams")


def _start(text: str) -> str:
    if text not in ("earliest", "latest") and DURATION.fullmatch(text) is None:
        raise ValueError("Must be earliest, latest or by_duration:<PnDTnHnMn.nS>")
    return text


def _setting(name: str, parse: Parse, doc: str, type: T = T.INT, default: str = "") -> Setting:
    server = BROKER_SETTINGS.get(f"group.{name}")
    return Setting(
        name=name,
        type=type,
        default=server.default if server is not None else default,
        doc=doc,
        parse_text=parse,
        change=Change.CLUSTER_WIDE,
        effective=name in (SESSION, HEARTBEAT),
        internal=False,
    )


_ALL = (
    _setting("consumer.assignment.interval.ms", int32(0), "The least time between assignments."),
    _setting(HEARTBEAT, int32(1), "The time between heartbeats that members are told."),
    _setting(SESSION, int32(1), "A member that is silent for so long is removed."),
    _setting("share.assignment.interval.ms", int32(0), "The least time between assignments."),
    _setting(
        "share.auto.offset.reset", _start, "Where a new share group starts.", T.STRING, "latest"
    ),
    _setting("share.delivery.count.limit", int32(1), "How often a record is delivered at most."),
    _setting("share.heartbeat.interval.ms", int32(1), "The time between heartbeats."),
    _setting(
        "share.isolation.level",
        one_of("read_committed", "read_uncommitted"),
        "Whether records of transactions that did not commit are delivered.",
        T.STRING,
        "read_uncommitted",
    ),
    _setting("share.partition.max.record.locks", int32(1), "Records in delivery at most."),
    _setting("share.record.lock.duration.ms", int32(1000), "How long a delivery may take."),
    _setting(
        "share.renew.acknowledge.enable",
        boolean,
        "Whether a delivery's time can be extended.",
        T.BOOLEAN,
        "true",
    ),
    _setting("share.session.timeout.ms", int32(1), "A silent member is removed after it."),
    _setting("streams.assignment.interval.ms", int32(0), "The least time between assignments."),
    _setting("streams.heartbeat.interval.ms", int32(1), "The time between heartbeats."),
    _setting("streams.initial.rebalance.delay.ms", int32(0), "How long the first one waits."),
    _setting("streams.num.standby.replicas", int32(0), "Standby replicas of each task."),
    _setting("streams.session.timeout.ms", int32(1), "A silent member is removed after it."),
)
SINGLE_GROUP_SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {setting.name: setting for setting in _ALL}
)


def server_name(name: str) -> str | None:
    """The broker's setting that stands in for one that a group does not have."""
    return f"group.{name}" if f"group.{name}" in BROKER_SETTINGS else None


def validate_group(config: Mapping[str, str], broker: BrokerSettings) -> None:
    """InvalidSetting when a group must not have these settings on such a broker."""
    parse_all(config, SINGLE_GROUP_SETTINGS, kind="group")
    for name in sorted(config):
        _check_bounds(name, config[name], broker)
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if not config.keys() & {session, heartbeat}:
            continue
        if _number(session, config, broker) <= _number(heartbeat, config, broker):
            value = str(_number(session, config, broker))
            raise InvalidSetting(
                name=session, value=value, expected=f"Value must be greater than {heartbeat}"
            )


def resolve_group(config: Mapping[str, str], settings: GroupSettings) -> GroupSettings:
    """What the coordinator obeys for a group with these settings of its own."""
    if SESSION not in config and HEARTBEAT not in config:
        return settings
    return replace(
        settings,
        group_consumer_session_timeout_ms=int(
            config.get(SESSION, settings.group_consumer_session_timeout_ms)
        ),
        group_consumer_heartbeat_interval_ms=int(
            config.get(HEARTBEAT, settings.group_consumer_heartbeat_interval_ms)
        ),
        given=settings.given | {f"group.{name}" for name in config},
    )


def _check_bounds(name: str, value: str, broker: BrokerSettings) -> None:
    kind, rest = name.split(".", 1)
    rest = rest.removeprefix("num.")  # as in group.streams.max.standby.replicas
    least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    if least in BROKER_SETTINGS and int(value) < _of_broker(least, broker):
        expected = f"Value must be at least that of {least}"
        raise InvalidSetting(name=name, value=value, expected=expected)
    if most in BROKER_SETTINGS and int(value) > _of_broker(most, broker):
        expected = f"Value must be no more than that of {most}"
        raise InvalidSetting(name=name, value=value, expected=expected)


def _number(name: str, config: Mapping[str, str], broker: BrokerSettings) -> int:
    return int(config[name]) if name in config else _of_broker(f"group.{name}", broker)


def _of_broker(name: str, broker: BrokerSettings) -> int:
    return int(broker.given.get(name) or BROKER_SETTINGS[name].default or 0)
