"""Every topic setting of Apache Kafka 4.3, with its default, plus those that Penstock adds.

`TopicSettings()` holds Kafka's defaults. What a topic really has is `resolve_topic`: its own
override, else what the broker says under its server name (`retention.ms` is `log.retention.ms`,
else `log.retention.minutes`, else `log.retention.hours`), else the default.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.broker import BROKER_SETTINGS, BrokerSettings
from penstock.model.settings.setting import (
    LONG_MAX,
    InvalidSetting,
    ServerName,
    Setting,
    SettingType,
    boolean,
    declare,
    declared,
    fraction,
    int32,
    int64,
    items,
    items_of,
    one_of,
    parse_all,
)

T = SettingType
HOUR_MS = 3_600_000
MINUTE_MS = 60_000

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def throttled_replicas(text: str) -> tuple[str, ...]:
    found = items(text)
    if found not in ((), ("*",)) and any(
        re.fullmatch(r"[0-9]+:[0-9]+", item) is None for item in found
    ):
        raise ValueError("Must be * or a list of [partitionId]:[brokerId]")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What one topic's partitions obey. Field names are Kafka's, with underscores."""

    cleanup_policy: frozenset[str] = declare(
        frozenset({"delete"}),
        T.LIST,
        items_of("compact", "delete"),
        "What becomes of old data: delete drops whole segments by age and size, compact keeps the "
        "latest value of each key, both do both, and an empty list keeps everything.",
        servers=(ServerName("log.cleanup.policy"),),
    )
    compression_type: str = declare(
        "producer",
        T.STRING,
        one_of(*CODECS),
        "The codec in which batches are stored; producer keeps the one that they came in.",
        servers=(ServerName("compression.type"),),
    )
    compression_gzip_level: int = declare(
        -1,
        T.INT,
        int32(1, 9, also=-1),
        "How hard gzip tries when compression.type is gzip.",
        servers=(ServerName("compression.gzip.level"),),
    )
    compression_lz4_level: int = declare(
        9,
        T.INT,
        int32(1, 17),
        "How hard lz4 tries when compression.type is lz4.",
        servers=(ServerName("compression.lz4.level"),),
    )
    compression_zstd_level: int = declare(
        3,
        T.INT,
        int32(-131072, 22),
        "How hard zstd tries when compression.type is zstd.",
        servers=(ServerName("compression.zstd.level"),),
    )
    delete_retention_ms: int = declare(
        24 * HOUR_MS,
        T.LONG,
        int64(0),
        "How long a compacted topic keeps tombstones for those who read it from the start.",
        servers=(ServerName("log.cleaner.delete.retention.ms"),),
    )
    file_delete_delay_ms: int = declare(
        60_000,
        T.LONG,
        int64(0),
        "How long a deleted segment's files stay before they are removed.",
        servers=(ServerName("log.segment.delete.delay.ms"),),
    )
    flush_messages: int = declare(
        LONG_MAX,
        T.LONG,
        int64(1),
        "After how many records a write waits until the log is synced to disk.",
        servers=(ServerName("log.flush.interval.messages"),),
    )
    flush_ms: int = declare(
        LONG_MAX,
        T.LONG,
        int64(0),
        "After how much time the log is synced to disk.",
        servers=(
            ServerName("log.flush.interval.ms"),
            ServerName("log.flush.scheduler.interval.ms"),
        ),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = declare(
        (),
        T.LIST,
        throttled_replicas,
        "Replicas whose following is throttled, as partition:broker, or * for all.",
    )
    index_interval_bytes: int = declare(
        4096,
        T.INT,
        int32(0),
        "About how many bytes of log lie between two entries of its indexes.",
        servers=(ServerName("log.index.interval.bytes"),),
    )
    internal_segment_bytes: int | None = declare(
        None, T.INT, int32(1), "Overrides segment.bytes without its lower bound.", internal=True
    )
    leader_replication_throttled_replicas: tuple[str, ...] = declare(
        (),
        T.LIST,
        throttled_replicas,
        "Replicas whose leading is throttled, as partition:broker, or * for all.",
    )
    local_retention_bytes: int = declare(
        -2,
        T.LONG,
        int64(-2),
        "Local share of retention.bytes; tiered storage only.",
        effective=False,
        servers=(ServerName("log.local.retention.bytes"),),
    )
    local_retention_ms: int = declare(
        -2,
        T.LONG,
        int64(-2),
        "Local share of retention.ms; tiered storage only.",
        effective=False,
        servers=(ServerName("log.local.retention.ms"),),
    )
    max_compaction_lag_ms: int = declare(
        LONG_MAX,
        T.LONG,
        int64(1),
        "A record becomes subject to compaction at this age at the latest.",
        servers=(ServerName("log.cleaner.max.compaction.lag.ms"),),
    )
    max_message_bytes: int = declare(
        1_048_588,
        T.INT,
        int32(0),
        "The largest record batch that is accepted, as compressed.",
        servers=(ServerName("message.max.bytes"),),
    )
    message_timestamp_after_max_ms: int = declare(
        HOUR_MS,
        T.LONG,
        int64(0),
        "How far a record's timestamp may lie ahead of the broker's clock; CreateTime only.",
        servers=(ServerName("log.message.timestamp.after.max.ms"),),
    )
    message_timestamp_before_max_ms: int = declare(
        LONG_MAX,
        T.LONG,
        int64(0),
        "How far a record's timestamp may lie behind the broker's clock; CreateTime only.",
        servers=(ServerName("log.message.timestamp.before.max.ms"),),
    )
    message_timestamp_type: str = declare(
        "CreateTime",
        T.STRING,
        one_of("CreateTime", "LogAppendTime"),
        "Whether a record keeps its producer's timestamp or gets the time of its append.",
        servers=(ServerName("log.message.timestamp.type"),),
    )
    min_cleanable_dirty_ratio: float = declare(
        0.5,
        T.DOUBLE,
        fraction(0, 1),
        "Which share of a log must be uncompacted before compaction is worth its while.",
        servers=(ServerName("log.cleaner.min.cleanable.ratio"),),
    )
    min_compaction_lag_ms: int = declare(
        0,
        T.LONG,
        int64(0),
        "A record is safe from compaction until this age.",
        servers=(ServerName("log.cleaner.min.compaction.lag.ms"),),
    )
    min_insync_replicas: int = declare(
        1,
        T.INT,
        int32(1),
        "How many replicas must be in sync for a write with acks=all.",
        servers=(ServerName("min.insync.replicas"),),
    )
    penstock_ack_fsync: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a write is acknowledged, and becomes visible, only once it is synced to disk.",
        servers=(ServerName("penstock.ack.fsync"),),
    )
    preallocate: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a new segment takes its space at once.",
        effective=False,
        servers=(ServerName("log.preallocate"),),
    )
    remote_log_copy_disable: bool = declare(
        False, T.BOOLEAN, boolean, "Whether tiered data becomes read-only.", effective=False
    )
    remote_log_delete_on_disable: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether tiered data goes when tiered storage is switched off.",
        effective=False,
    )
    remote_storage_enable: bool = declare(
        False, T.BOOLEAN, boolean, "Whether old segments move to tiered storage.", effective=False
    )
    retention_bytes: int = declare(
        -1,
        T.LONG,
        int64(),
        "Up to which size a partition keeps old segments; -1 is without limit. Policy delete only.",
        servers=(ServerName("log.retention.bytes"),),
    )
    retention_ms: int = declare(
        168 * HOUR_MS,
        T.LONG,
        int64(-1),
        "Up to which age a partition keeps old segments; -1 is without limit. Policy delete only.",
        servers=(
            ServerName("log.retention.ms"),
            ServerName("log.retention.minutes", MINUTE_MS),
            ServerName("log.retention.hours", HOUR_MS),
        ),
    )
    segment_bytes: int = declare(
        2**30,
        T.INT,
        int32(2**20),
        "The size at which a new segment begins; data is dropped and compacted by whole segments.",
        servers=(ServerName("log.segment.bytes"),),
    )
    segment_index_bytes: int = declare(
        10 * 2**20,
        T.INT,
        int32(4),
        "The size that a segment's index may reach.",
        servers=(ServerName("log.index.size.max.bytes"),),
    )
    segment_jitter_ms: int = declare(
        0,
        T.LONG,
        int64(0),
        "By how much, at random, segment.ms is shortened, to spread the work.",
        servers=(
            ServerName("log.roll.jitter.ms"),
            ServerName("log.roll.jitter.hours", HOUR_MS),
        ),
    )
    segment_ms: int = declare(
        168 * HOUR_MS,
        T.LONG,
        int64(1),
        "The age at which a new segment begins even if it is not full.",
        servers=(
            ServerName("log.roll.ms"),
            ServerName("log.roll.hours", HOUR_MS),
        ),
    )
    unclean_leader_election_enable: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a replica out of sync may lead when no other is left, at the cost of records.",
        servers=(ServerName("unclean.leader.election.enable"),),
    )


TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(TopicSettings))
for _setting in TOPIC_SETTINGS.values():
    for _server in _setting.servers:
        assert _server.name in BROKER_SETTINGS, f"declare {_server.name} in BrokerSettings"


def validate_topic(overrides: Mapping[str, str], broker: BrokerSettings) -> None:
    """InvalidSetting when a topic on this broker cannot have these overrides."""
    resolved = resolve_topic(overrides, broker)
    if resolved.min_compaction_lag_ms > resolved.max_compaction_lag_ms:
        raise InvalidSetting(
            name="min.compaction.lag.ms",
            value=str(resolved.min_compaction_lag_ms),
            expected="Value must be at most max.compaction.lag.ms",
        )
    if resolved.remote_storage_enable:
        raise InvalidSetting(
            name="remote.storage.enable", value="true", expected="there is no tiered storage here"
        )


def resolve_topic(overrides: Mapping[str, str], broker: BrokerSettings) -> TopicSettings:
    """What a topic with these overrides obeys here; InvalidSetting when one is wrong by itself."""
    values: dict[str, Any] = server_defaults(broker)
    values.update(parse_all(overrides, TOPIC_SETTINGS, kind="topic"))
    if values.get("internal_segment_bytes") is not None:
        values["segment_bytes"] = values["internal_segment_bytes"]
    return TopicSettings(**values)


def server_defaults(broker: BrokerSettings) -> dict[str, object]:
    """What topics without overrides get from the broker, by field of TopicSettings."""
    defaults: dict[str, object] = {}
    for setting in TOPIC_SETTINGS.values():
        for server, factor in setting.servers:
            value = getattr(broker, BROKER_SETTINGS[server].field)
            if value is not None:
                # Only whole numbers have a unit; a negative one means "without limit" in every
                # unit.
                scaled = factor != 1 and value >= 0
                defaults[setting.field] = value * factor if scaled else value
                break
    for field in ("retention_ms", "segment_ms", "segment_jitter_ms"):
        if isinstance(limit := defaults.get(field), int):
            defaults[field] = min(limit, LONG_MAX)
    if isinstance(retention_ms := defaults.get("retention_ms"), int) and retention_ms < 0:
        defaults["retention_ms"] = -1
    return defaults
