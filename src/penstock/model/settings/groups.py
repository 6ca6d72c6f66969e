"""The settings of the group coordinator, with Kafka's names and defaults.

They are settings of the broker like any other (`BrokerSettings.groups` holds them, `parse_broker`
reads them); they stand apart because the rules of groups are given these and nothing else.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import (
    INT_MAX,
    Change,
    Parse,
    Setting,
    SettingType,
    declare,
    declared,
    int32,
    int64,
    integer,
    items,
    items_of,
    long,
)

T = SettingType
DYNAMIC = Change.CLUSTER_WIDE


def _in_order(*words: str) -> Parse:
    """A list of some of these words, in the order given."""

    def parse(text: str) -> tuple[str, ...]:
        found = items(text)
        items_of(*words)(text)
        if not found:
            raise ValueError("At least one is needed")
        return found

    return parse


def _lower_case_of(*words: str) -> Parse:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"String must be one of (case insensitive): {', '.join(words)}")
        return text.lower()

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What a coordinator obeys. Field names are Kafka's, with underscores."""

    # Classic groups
    group_initial_rebalance_delay_ms: int = integer(
        3000, "How long the first rebalance of an empty group waits for more members."
    )
    group_max_session_timeout_ms: int = integer(
        1_800_000, "The longest session time-out that a classic member may ask for."
    )
    group_max_size: int = integer(
        INT_MAX, "The most members that a classic group may have.", int32(1)
    )
    group_min_session_timeout_ms: int = integer(
        6000, "The shortest session time-out that a classic member may ask for."
    )

    # Groups of the consumer protocol (KIP-848)
    group_coordinator_rebalance_protocols: frozenset[str] = declare(
        frozenset({"classic", "consumer", "streams"}),
        T.LIST,
        items_of("classic", "consumer", "share", "streams"),
        "The protocols by which groups may rebalance; classic is always among them.",
    )
    group_consumer_assignors: tuple[str, ...] = declare(
        ("uniform", "range"),
        T.LIST,
        _in_order("uniform", "range"),
        "The assignors of the coordinator; the first is the default.",
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        5000, "The longest time between heartbeats that members are told.", int32(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        15_000, "The longest time between heartbeats that a group may have of its own.", int32(1)
    )
    group_consumer_max_session_timeout_ms: int = integer(
        60_000, "The longest session time-out that a group may have of its own.", int32(1)
    )
    group_consumer_max_size: int = integer(
        INT_MAX, "The most members that a consumer group may have.", int32(1)
    )
    group_consumer_migration_policy: str = declare(
        "bidirectional",
        T.STRING,
        _lower_case_of("bidirectional", "downgrade", "upgrade", "disabled"),
        "In which direction a group may change between the classic and the consumer protocol.",
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        5000, "The shortest time between heartbeats that a group may have of its own.", int32(1)
    )
    group_consumer_min_session_timeout_ms: int = integer(
        45_000, "The shortest session time-out that a group may have of its own.", int32(1)
    )
    group_consumer_session_timeout_ms: int = integer(
        45_000, "A member of a consumer group that is silent for so long is removed.", int32(1)
    )

    # Committed offsets
    offset_metadata_max_bytes: int = integer(
        4096, "The most characters of metadata that a commit may carry."
    )
    offsets_commit_timeout_ms: int = integer(
        5000, "How long a change of a group waits to be replicated.", int32(1)
    )
    offsets_retention_check_interval_ms: int = long(
        600_000, "How often offsets that have expired are looked for.", int64(1)
    )
    offsets_retention_minutes: int = integer(
        10_080, "How long offsets are kept after their group has become empty.", int32(1)
    )

    # The topic that holds it all
    offsets_topic_compression_codec: int = integer(
        0, "How the offsets topic is compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )
    offsets_topic_num_partitions: int = integer(
        50, "Partitions of the offsets topic. It cannot change once the topic exists.", int32(1)
    )
    offsets_topic_replication_factor: int = declare(
        3,
        T.SHORT,
        int32(1, 32767),
        "Replicas of the offsets topic; as many as there are brokers when these are fewer.",
    )
    offsets_topic_segment_bytes: int = integer(
        104_857_600, "The segment size of the offsets topic.", int32(2**20)
    )

    # Which of them were set, by Kafka's name: some defaults give way to better knowledge.
    given: frozenset[str] = frozenset()


GROUP_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(GroupSettings))
