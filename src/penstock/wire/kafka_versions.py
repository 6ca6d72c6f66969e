"""The APIs of Apache Kafka 4.3, with the versions that its brokers and controllers serve.

They are what ApiVersions of a running node tells, which is not always what the message definitions
say: Produce begins with version 0 for the sake of old clients, and versions that are not stable yet
are left out. Those of telemetry are told only where a plugin takes the metrics.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.wire.api import ApiKey, VersionRange

KAFKA_RELEASE = "4.3"

# On the listeners of brokers. Controllers have some of these too.
BROKER_VERSIONS: Mapping[ApiKey, VersionRange] = MappingProxyType(
    {
        ApiKey.PRODUCE: VersionRange(0, 13),
        ApiKey.FETCH: VersionRange(4, 18),
        ApiKey.LIST_OFFSETS: VersionRange(1, 11),
        ApiKey.METADATA: VersionRange(0, 13),
        ApiKey.OFFSET_COMMIT: VersionRange(2, 10),
        ApiKey.OFFSET_FETCH: VersionRange(1, 10),
        ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
        ApiKey.JOIN_GROUP: VersionRange(0, 9),
        ApiKey.HEARTBEAT: VersionRange(0, 4),
        ApiKey.LEAVE_GROUP: VersionRange(0, 5),
        ApiKey.SYNC_GROUP: VersionRange(0, 5),
        ApiKey.DESCRIBE_GROUPS: VersionRange(0, 6),
        ApiKey.LIST_GROUPS: VersionRange(0, 5),
        ApiKey.SASL_HANDSHAKE: VersionRange(0, 1),
        ApiKey.API_VERSIONS: VersionRange(0, 4),
        ApiKey.CREATE_TOPICS: VersionRange(2, 7),
        ApiKey.DELETE_TOPICS: VersionRange(1, 6),
        ApiKey.DELETE_RECORDS: VersionRange(0, 2),
        ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: VersionRange(2, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 5),
        ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(0, 4),
        ApiKey.END_TXN: VersionRange(0, 5),
        ApiKey.WRITE_TXN_MARKERS: VersionRange(1, 2),
        ApiKey.TXN_OFFSET_COMMIT: VersionRange(0, 5),
        ApiKey.DESCRIBE_ACLS: VersionRange(1, 3),
        ApiKey.CREATE_ACLS: VersionRange(1, 3),
        ApiKey.DELETE_ACLS: VersionRange(1, 3),
        ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
        ApiKey.ALTER_CONFIGS: VersionRange(0, 2),
        ApiKey.ALTER_REPLICA_LOG_DIRS: VersionRange(1, 2),
        ApiKey.DESCRIBE_LOG_DIRS: VersionRange(1, 5),
        ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
        ApiKey.CREATE_PARTITIONS: VersionRange(0, 3),
        ApiKey.CREATE_DELEGATION_TOKEN: VersionRange(1, 3),
        ApiKey.RENEW_DELEGATION_TOKEN: VersionRange(1, 2),
        ApiKey.EXPIRE_DELEGATION_TOKEN: VersionRange(1, 2),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: VersionRange(1, 3),
        ApiKey.DELETE_GROUPS: VersionRange(0, 2),
        ApiKey.ELECT_LEADERS: VersionRange(0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: VersionRange(0, 1),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: VersionRange(0, 0),
        ApiKey.OFFSET_DELETE: VersionRange(0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: VersionRange(0, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
        ApiKey.DESCRIBE_QUORUM: VersionRange(0, 2),
        ApiKey.UPDATE_FEATURES: VersionRange(0, 2),
        ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2),
        ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0),
        ApiKey.UNREGISTER_BROKER: VersionRange(0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: VersionRange(0, 0),
        ApiKey.LIST_TRANSACTIONS: VersionRange(0, 2),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: VersionRange(0, 1),
        ApiKey.CONSUMER_GROUP_DESCRIBE: VersionRange(0, 1),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: VersionRange(0, 0),
        ApiKey.PUSH_TELEMETRY: VersionRange(0, 0),
        ApiKey.LIST_CONFIG_RESOURCES: VersionRange(0, 1),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: VersionRange(0, 0),
        ApiKey.SHARE_GROUP_HEARTBEAT: VersionRange(1, 1),
        ApiKey.SHARE_GROUP_DESCRIBE: VersionRange(1, 1),
        ApiKey.SHARE_FETCH: VersionRange(1, 2),
        ApiKey.SHARE_ACKNOWLEDGE: VersionRange(1, 2),
        ApiKey.ADD_RAFT_VOTER: VersionRange(0, 1),
        ApiKey.REMOVE_RAFT_VOTER: VersionRange(0, 0),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.READ_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.WRITE_SHARE_GROUP_STATE: VersionRange(0, 1),
        ApiKey.DELETE_SHARE_GROUP_STATE: VersionRange(0, 0),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: VersionRange(0, 1),
        ApiKey.STREAMS_GROUP_HEARTBEAT: VersionRange(0, 0),
        ApiKey.STREAMS_GROUP_DESCRIBE: VersionRange(0, 0),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: VersionRange(0, 1),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: VersionRange(0, 0),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: VersionRange(0, 0),
    }
)

# On the listeners of controllers alone.
CONTROLLER_VERSIONS: Mapping[ApiKey, VersionRange] = MappingProxyType(
    {
        ApiKey.VOTE: VersionRange(0, 2),
        ApiKey.BEGIN_QUORUM_EPOCH: VersionRange(0, 1),
        ApiKey.END_QUORUM_EPOCH: VersionRange(0, 1),
        ApiKey.ALTER_PARTITION: VersionRange(2, 3),
        ApiKey.ENVELOPE: VersionRange(0, 0),
        ApiKey.FETCH_SNAPSHOT: VersionRange(0, 1),
        ApiKey.BROKER_REGISTRATION: VersionRange(0, 4),
        ApiKey.BROKER_HEARTBEAT: VersionRange(0, 2),
        ApiKey.ALLOCATE_PRODUCER_IDS: VersionRange(0, 0),
        ApiKey.CONTROLLER_REGISTRATION: VersionRange(0, 0),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: VersionRange(0, 0),
        ApiKey.UPDATE_RAFT_VOTER: VersionRange(0, 0),
    }
)
