"""Topic settings have Kafka's names and defaults, and say what is wrong with a value."""

import pytest

from penstock.model.settings.broker import BROKER_SETTINGS, parse_broker
from penstock.model.settings.setting import InvalidSetting, ServerName, UnknownSetting
from penstock.model.settings.topic import (
    TOPIC_SETTINGS,
    TopicSettings,
    resolve_topic,
    validate_topic,
)

BROKER = parse_broker({})


def test_a_topic_without_overrides_has_kafkas_defaults() -> None:
    assert resolve_topic({}, BROKER) == TopicSettings()


def test_every_default_is_a_value_that_the_setting_accepts() -> None:
    for setting in TOPIC_SETTINGS.values():
        if setting.default is not None:
            assert setting.parse(setting.default) == getattr(TopicSettings(), setting.field)


def test_every_setting_is_documented() -> None:
    assert all(setting.doc for setting in TOPIC_SETTINGS.values())


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("min.insync.replicas", "1"),
        ("retention.bytes", "-1"),
        ("retention.ms", "604800000"),
        ("segment.bytes", "1073741824"),
        ("segment.ms", "604800000"),
        ("unclean.leader.election.enable", "false"),
    ],
)
def test_defaults_are_those_of_apache_kafka(name: str, default: str) -> None:
    assert TOPIC_SETTINGS[name].default == default


def test_an_override_goes_before_the_broker() -> None:
    broker = parse_broker({"log.retention.ms": "1000", "message.max.bytes": "2000"})
    settings = resolve_topic({"retention.ms": "5000"}, broker)
    assert settings.retention_ms == 5000
    assert settings.max_message_bytes == 2000


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_finer_units_go_before_coarser_ones(given: dict[str, str], retention_ms: int) -> None:
    assert resolve_topic({}, parse_broker(given)).retention_ms == retention_ms


def test_every_server_name_reaches_its_topic_setting() -> None:
    settings = [(name, found) for name, found in TOPIC_SETTINGS.items() if found.servers]
    assert settings
    for name, setting in settings:
        server = setting.servers[0].name
        chosen = {"BOOLEAN": "true", "DOUBLE": "0.25", "LIST": "compact"}.get(setting.type.name)
        chosen = chosen or {
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "compression.gzip.level": "5",
            "compression.lz4.level": "5",
            "compression.zstd.level": "5",
        }.get(name, "2097152")
        resolved = resolve_topic({}, parse_broker({server: chosen}))
        assert getattr(resolved, setting.field) == setting.parse(chosen), name


def test_a_setting_of_penstocks_own_has_a_default_of_the_same_name_on_the_broker() -> None:
    own = [setting for setting in TOPIC_SETTINGS.values() if setting.own]
    assert own
    for setting in own:
        assert setting.servers == (ServerName(setting.name),)
        assert BROKER_SETTINGS[setting.name].own


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("segment.bytes", "12", "Value must be at least 1048576"),
        ("segment.bytes", "many", "Not a whole number"),
        ("segment.bytes", "4294967296", "Value must be no more than 2147483647"),
        ("compression.gzip.level", "10", "Value must be no more than 9"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "nan", "Not a number"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,delete", "Duplicate values are not allowed"),
        ("message.timestamp.type", "createtime", "String must be one of: CreateTime"),
        ("leader.replication.throttled.replicas", "1-2", r"Must be \* or a list"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(
    name: str, value: str, expected: str
) -> None:
    with pytest.raises(InvalidSetting, match=expected) as error:
        validate_topic({name: value}, BROKER)
    assert error.value.name == name
    assert error.value.value == value


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSetting, match=r"retention\.m.*did you mean retention\.ms\?"):
        validate_topic({"retention.m": "5"}, BROKER)


def test_gzip_may_choose_its_own_level() -> None:
    assert resolve_topic({"compression.gzip.level": "-1"}, BROKER).compression_gzip_level == -1


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    assert resolve_topic({"cleanup.policy": ""}, BROKER).cleanup_policy == frozenset()


def test_both_cleanup_policies_can_hold_together() -> None:
    policy = resolve_topic({"cleanup.policy": "delete, compact"}, BROKER).cleanup_policy
    assert policy == {"delete", "compact"}


def test_compaction_lags_must_agree_with_each_other() -> None:
    lags = {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"}
    with pytest.raises(InvalidSetting, match=r"max\.compaction\.lag\.ms"):
        validate_topic(lags, BROKER)


def test_tiered_storage_can_not_be_switched_on() -> None:
    with pytest.raises(InvalidSetting, match="no tiered storage"):
        validate_topic({"remote.storage.enable": "true"}, BROKER)
    validate_topic({"remote.storage.enable": "false"}, BROKER)


def test_what_was_once_accepted_can_always_be_resolved() -> None:
    # A broker may lower its own maximum later; topics must not keep it from starting.
    broker = parse_broker({"log.cleaner.max.compaction.lag.ms": "50"})
    assert resolve_topic({"min.compaction.lag.ms": "100"}, broker).min_compaction_lag_ms == 100


def test_the_internal_segment_size_has_no_lower_bound() -> None:
    assert resolve_topic({"internal.segment.bytes": "100"}, BROKER).segment_bytes == 100
