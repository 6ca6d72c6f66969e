"""Every topic setting of Apache Kafka 4.3, with its default, plus those that Penstock adds.

`TopicSettings()` holds Kafka's defaults. What a topic really has is `resolve_topic`: its own
override, else what the broker says under its server name (`retention.ms` is `log.retention.ms`,
else `log.retention.minutes`, else `log.retention.hours`), else the default.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.setting import (
    LONG_MAX,
    InvalidSetting,
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
    )
    compression_type: str = declare(
        "producer",
        T.STRING,
        one_of(*CODECS),
        "The codec in which batches are stored; producer keeps the one that they came in.",
    )
    compression_gzip_level: int = declare(
        -1, T.INT, int32(1, 9, also=-1), "How hard gzip tries when compression.type is gzip."
    )
    compression_lz4_level: int = declare(
        9, T.INT, int32(1, 17), "How hard lz4 tries when compression.type is lz4."
    )
    compression_zstd_level: int = declare(
        3, T.INT, int32(-131072, 22), "How hard zstd tries when compression.type is zstd."
    )
    delete_retention_ms: int = declare(
        24 * HOUR_MS,
        T.LONG,
        int64(0),
        "How long a compacted topic keeps tombstones for those who read it from the start.",
    )
    file_delete_delay_ms: int = declare(
        60_000,
        T.LONG,
        int64(0),
        "How long a deleted segment's files stay before they are removed.",
    )
    flush_messages: int = declare(
        LONG_MAX,
        T.LONG,
        int64(1),
        "After how many records a write waits until the log is synced to disk.",
    )
    flush_ms: int = declare(
        LONG_MAX, T.LONG, int64(0), "After how much time the log is synced to disk."
    )
    follower_replication_throttled_replicas: tuple[str, ...] = declare(
        (),
        T.LIST,
        throttled_replicas,
        "Replicas whose following is throttled, as partition:broker, or * for all.",
        effective=False,
    )
    index_interval_bytes: int = declare(
        4096, T.INT, int32(0), "About how many bytes of log lie between two entries of its indexes."
    )
    internal_segment_bytes: int | None = declare(
        None, T.INT, int32(1), "Overrides segment.bytes without its lower bound.", internal=True
    )
    leader_replication_throttled_replicas: tuple[str, ...] = declare(
        (),
        T.LIST,
        throttled_replicas,
        "Replicas whose leading is throttled, as partition:broker, or * for all.",
        effective=False,
    )
    local_retention_bytes: int = declare(
        -2,
        T.LONG,
        int64(-2),
        "Local share of retention.bytes; tiered storage only.",
        effective=False,
    )
    local_retention_ms: int = declare(
        -2, T.LONG, int64(-2), "Local share of retention.ms; tiered storage only.", effective=False
    )
    max_compaction_lag_ms: int = declare(
        LONG_MAX,
        T.LONG,
        int64(1),
        "A record becomes subject to compaction at this age at the latest.",
    )
    max_message_bytes: int = declare(
        1_048_588, T.INT, int32(0), "The largest record batch that is accepted, as compressed."
    )
    message_timestamp_after_max_ms: int = declare(
        HOUR_MS,
        T.LONG,
        int64(0),
        "How far a record's timestamp may lie ahead of the broker's clock; CreateTime only.",
    )
    message_timestamp_before_max_ms: int = declare(
        LONG_MAX,
        T.LONG,
        int64(0),
        "How far a record's timestamp may lie behind the broker's clock; CreateTime only.",
    )
    message_timestamp_type: str = declare(
        "CreateTime",
        T.STRING,
        one_of("CreateTime", "LogAppendTime"),
        "Whether a record keeps its producer's timestamp or gets the time of its append.",
    )
    min_cleanable_dirty_ratio: float = declare(
        0.5,
        T.DOUBLE,
        fraction(0, 1),
        "Which share of a log must be uncompacted before compaction is worth its while.",
    )
    min_compaction_lag_ms: int = declare(
        0, T.LONG, int64(0), "A record is safe from compaction until this age."
    )
    min_insync_replicas: int = declare(
        1, T.INT, int32(1), "How many replicas must be in sync for a write with acks=all."
    )
    penstock_ack_fsync: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a write is acknowledged, and becomes visible, only once it is synced to disk.",
    )
    preallocate: bool = declare(
        False, T.BOOLEAN, boolean, "Whether a new segment takes its space at once.", effective=False
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
    )
    retention_ms: int = declare(
        168 * HOUR_MS,
        T.LONG,
        int64(-1),
        "Up to which age a partition keeps old segments; -1 is without limit. Policy delete only.",
    )
    segment_bytes: int = declare(
        2**30,
        T.INT,
        int32(2**20),
        "The size at which a new segment begins; data is dropped and compacted by whole segments.",
    )
    segment_index_bytes: int = declare(
        10 * 2**20, T.INT, int32(4), "The size that a segment's index may reach."
    )
    segment_jitter_ms: int = declare(
        0, T.LONG, int64(0), "By how much, at random, segment.ms is shortened, to spread the work."
    )
    segment_ms: int = declare(
        168 * HOUR_MS,
        T.LONG,
        int64(1),
        "The age at which a new segment begins even if it is not full.",
    )
    unclean_leader_election_enable: bool = declare(
        False,
        T.BOOLEAN,
        boolean,
        "Whether a replica out of sync may lead when no other is left, at the cost of records.",
        effective=False,
    )


TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(TopicSettings))

# The broker's names for a topic setting, first one given wins, with the factor from its unit to
# the topic's.
SERVER_NAMES: Mapping[str, tuple[tuple[str, int], ...]] = MappingProxyType(
    {
        "cleanup.policy": (("log.cleanup.policy", 1),),
        "compression.gzip.level": (("compression.gzip.level", 1),),
        "compression.lz4.level": (("compression.lz4.level", 1),),
        "compression.type": (("compression.type", 1),),
        "compression.zstd.level": (("compression.zstd.level", 1),),
        "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
        "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
        "flush.messages": (("log.flush.interval.messages", 1),),
        "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
        "index.interval.bytes": (("log.index.interval.bytes", 1),),
        "local.retention.bytes": (("log.local.retention.bytes", 1),),
        "local.retention.ms": (("log.local.retention.ms", 1),),
        "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
        "max.message.bytes": (("message.max.bytes", 1),),
        "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
        "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
        "message.timestamp.type": (("log.message.timestamp.type", 1),),
        "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
        "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
        "min.insync.replicas": (("min.insync.replicas", 1),),
        "penstock.ack.fsync": (("penstock.ack.fsync", 1),),
        "preallocate": (("log.preallocate", 1),),
        "retention.bytes": (("log.retention.bytes", 1),),
        "retention.ms": (
            ("log.retention.ms", 1),
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ),
        "segment.bytes": (("log.segment.bytes", 1),),
        "segment.index.bytes": (("log.index.size.max.bytes", 1),),
        "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
        "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
        "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    }
)


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
    for name, servers in SERVER_NAMES.items():
        for server, factor in servers:
            value = getattr(broker, server.replace(".", "_"))
            if value is not None:
                # Only whole numbers have a unit; a negative one means "without limit" in every
                # unit.
                scaled = factor != 1 and value >= 0
                defaults[name.replace(".", "_")] = value * factor if scaled else value
                break
    for field in ("retention_ms", "segment_ms", "segment_jitter_ms"):
        if isinstance(limit := defaults.get(field), int):
            defaults[field] = min(limit, LONG_MAX)
    if isinstance(retention_ms := defaults.get("retention_ms"), int) and retention_ms < 0:
        defaults["retention_ms"] = -1
    return defaults


assert SERVER_NAMES.keys() <= TOPIC_SETTINGS.keys()
