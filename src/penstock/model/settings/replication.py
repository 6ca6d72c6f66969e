"""The settings of replicas on several brokers, with Kafka's names and defaults.

They are settings of the broker like any other (`BrokerSettings.replication` holds them); they stand
apart because a node that is a cluster of its own has no use for them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import (
    Change,
    Setting,
    SettingType,
    declare,
    declared,
    flag,
    int32,
    int64,
    integer,
    long,
)

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


def replica_selector(text: str) -> str:
    """Apache Kafka loads any class; here are the two that it comes with."""
    if text not in ("", LEADER_SELECTOR, RACK_AWARE_SELECTOR):
        raise ValueError(f"Expected {RACK_AWARE_SELECTOR} or {LEADER_SELECTOR}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """What followers and leaders obey. Field names are Kafka's, with underscores."""

    auto_leader_rebalance_enable: bool = flag(
        True, "Whether preferred replicas lead again once they are in sync."
    )
    controlled_shutdown_enable: bool = flag(
        True, "Whether a broker that stops has its partitions led by others first."
    )
    follower_replication_throttled_rate: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "How many bytes a second are fetched for replicas that are out of sync, of those that "
        "follower.replication.throttled.replicas of their topics lists; without it any number.",
        change=Change.CLUSTER_WIDE,
        internal=True,
    )
    leader_imbalance_check_interval_seconds: int = long(
        300, "How often leaders are compared with preferred replicas.", int64(1)
    )
    leader_replication_throttled_rate: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "How many bytes a second are sent to replicas that are out of sync, of the partitions that "
        "leader.replication.throttled.replicas of their topics lists; without it any number.",
        change=Change.CLUSTER_WIDE,
        internal=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int | None = declare(
        None,
        SettingType.LONG,
        int64(0),
        "How many bytes a second are copied for replicas that are moved between the log "
        "directories of a broker; without it any number.",
        change=Change.CLUSTER_WIDE,
        internal=True,
    )
    replica_fetch_backoff_ms: int = integer(
        1000, "How long a follower waits at most before it fetches again after an error.", int32(0)
    )
    replica_fetch_max_bytes: int = integer(
        1_048_576, "How much of one partition a reply to a follower holds.", int32(0)
    )
    replica_fetch_min_bytes: int = integer(
        1, "How much a leader waits for before it replies to a follower."
    )
    replica_fetch_response_max_bytes: int = integer(
        10_485_760, "How much a reply to a follower holds.", int32(0)
    )
    replica_fetch_wait_max_ms: int = integer(
        500, "How long a leader waits before it replies to a follower that it has nothing."
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "How often high watermarks are saved."
    )
    replica_lag_time_max_ms: int = long(
        30_000, "A follower that has not caught up for so long is out of sync."
    )
    replica_selector_class: str | None = declare(
        None,
        SettingType.STRING,
        replica_selector,
        "From which replica consumers read: from one in their own rack (client.rack) with "
        f"{RACK_AWARE_SELECTOR}; without it from the leader.",
    )
    replica_socket_timeout_ms: int = integer(
        30_000, "How long a follower waits for a reply before it connects again."
    )


REPLICATION_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(ReplicationSettings))
