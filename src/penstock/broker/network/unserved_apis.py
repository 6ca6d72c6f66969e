"""The APIs of Apache Kafka that this broker does not serve: why, or when it is going to."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from penstock.wire.api import ApiKey


class Unserved(Enum):
    """Why an API is not served, as docs/protocol.md says it."""

    ENDED = "never: it ended with ZooKeeper"
    QUOTAS = "there are no client quotas: DescribeClientQuotas answers that there are none"
    SHARE_GROUPS = "later: share groups (KIP-932)"
    STREAMS_GROUPS = "not planned: Kafka Streams runs with the classic protocol, its default"


UNSERVED: Mapping[ApiKey, Unserved] = MappingProxyType(
    {
        key: reason
        for reason, keys in {
            Unserved.ENDED: (
                ApiKey.LEADER_AND_ISR,
                ApiKey.STOP_REPLICA,
                ApiKey.UPDATE_METADATA,
                ApiKey.CONTROLLED_SHUTDOWN,
            ),
            Unserved.QUOTAS: (ApiKey.ALTER_CLIENT_QUOTAS,),
            Unserved.SHARE_GROUPS: (
                ApiKey.SHARE_GROUP_HEARTBEAT,
                ApiKey.SHARE_GROUP_DESCRIBE,
                ApiKey.SHARE_FETCH,
                ApiKey.SHARE_ACKNOWLEDGE,
                ApiKey.INITIALIZE_SHARE_GROUP_STATE,
                ApiKey.READ_SHARE_GROUP_STATE,
                ApiKey.WRITE_SHARE_GROUP_STATE,
                ApiKey.DELETE_SHARE_GROUP_STATE,
                ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            ),
            Unserved.STREAMS_GROUPS: (
                ApiKey.STREAMS_GROUP_HEARTBEAT,
                ApiKey.STREAMS_GROUP_DESCRIBE,
            ),
        }.items()
        for key in keys
    }
)
