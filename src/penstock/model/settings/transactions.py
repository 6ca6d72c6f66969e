"""The settings of the transaction coordinator, with Kafka's names and defaults.

They are settings of the broker like any other (`BrokerSettings.transactions` holds them); they
stand apart because the rules of transactions are given these and nothing else.
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
    integer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """What a coordinator obeys. Field names are Kafka's, with underscores."""

    transaction_max_timeout_ms: int = integer(
        900_000,
        "The longest time-out that a transaction may ask for.",
        int32(1),
    )
    transaction_partition_verification_enable: bool = flag(
        True,
        "Whether the first write of a transaction to a partition is checked with its coordinator.",
        Change.CLUSTER_WIDE,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000,
        "How often transactional ids that have expired are looked for.",
        int32(1),
    )
    transaction_two_phase_commit_enable: bool = flag(
        False,
        "Whether transactions may be part of a two-phase commit. These have no time-out: what is"
        " left open holds back readers of what is committed until somebody ends it.",
    )
    transactional_id_expiration_ms: int = integer(
        604_800_000,
        "How long a transactional id that is not in use is remembered.",
        int32(1),
    )

    # The topic that holds it all
    transaction_state_log_min_isr: int = integer(
        2, "min.insync.replicas of the transaction log.", int32(1)
    )
    transaction_state_log_num_partitions: int = integer(
        50,
        "Partitions of the transaction log. It cannot change once the topic exists.",
        int32(1),
    )
    transaction_state_log_replication_factor: int = declare(
        3,
        SettingType.SHORT,
        int32(1, 32767),
        "Replicas of the transaction log; as many as there are brokers when these are fewer.",
    )
    transaction_state_log_segment_bytes: int = integer(
        104_857_600, "The segment size of the transaction log.", int32(2**20)
    )


TRANSACTION_SETTINGS: Mapping[str, Setting] = MappingProxyType(declared(TransactionSettings))
