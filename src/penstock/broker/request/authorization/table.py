"""What a client needs to be allowed to ask each API: the table. What its words mean is in `rule`.

    free                     everyone
    whole(...)               all of these rights, or the request is refused
    parts(list, replies, ..) a right for each part of the request; the others are answered
    then(rule, change)       as the rule says, and the reply is changed to hide the rest
    Unless(is_free, rule)    everyone, or the handler asks for the rights; others as the rule says

What Kafka documents as the operations and resources of its protocols, which is also what Apache
Kafka's brokers and controllers do. Where the words end, a rule is a function: see `topics` and
`groups`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.broker.request.authorization import groups, tokens, topics
from penstock.broker.request.authorization.rule import (
    Asked,
    Complete,
    Rule,
    Unless,
    cluster,
    free,
    name_part,
    named,
    parts,
    take_refused,
    then,
    topic_part,
    whole,
)
from penstock.broker.request.follower_by_message import is_of_consumer
from penstock.model.error import ErrorCode, RequestError
from penstock.security.acl.words import AclOperation as Op
from penstock.security.acl.words import ResourceType
from penstock.wire.api import ApiKey
from penstock.wire.definition import Message

GROUP, TRANSACTIONAL_ID = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
OF_NODES = whole(cluster(Op.CLUSTER_ACTION))
OF_MEMBERS = whole(named(Op.READ, GROUP, "group_id"))
OF_ADMINISTRATORS = whole(cluster(Op.ALTER))


def fetch_of_follower(asked: Asked) -> Message | None:
    """Followers are nodes of the cluster; one that is not is refused each partition."""
    if asked.access.may_cluster(Op.CLUSTER_ACTION):
        return None
    if not asked.request.topics:  # it goes on with a session, which may be another's
        raise RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refused = take_refused(
        asked, "topics", "responses", lambda *_: ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    assert isinstance(refused, Message)
    return refused


def offset_for_leader_epoch(asked: Asked) -> Complete | Message | None:
    """Nodes ask it of every topic, consumers of those that they may describe."""
    if asked.access.may_cluster(Op.CLUSTER_ACTION):
        return None
    return take_refused(asked, "topics", "topics", topic_part(Op.DESCRIBE, "topic"))


RULES: Mapping[ApiKey, Rule] = MappingProxyType(
    {
        # Data
        ApiKey.PRODUCE: parts(
            "topic_data",
            "responses",
            topic_part(Op.WRITE),
            before=whole(groups.transaction_of_produce),
        ),
        # What consumers may read is asked for each partition of their session, where it is read.
        ApiKey.FETCH: Unless(is_of_consumer, fetch_of_follower),
        ApiKey.LIST_OFFSETS: parts("topics", "topics", topic_part(Op.DESCRIBE)),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
        ApiKey.DELETE_RECORDS: parts("topics", "topics", topic_part(Op.DELETE)),
        # The cluster as clients see it
        ApiKey.API_VERSIONS: free,
        ApiKey.SASL_HANDSHAKE: free,
        ApiKey.SASL_AUTHENTICATE: free,
        ApiKey.METADATA: topics.metadata,
        ApiKey.DESCRIBE_CLUSTER: then(free, topics.describe_cluster),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
        ApiKey.FIND_COORDINATOR: groups.find_coordinator,
        # Groups
        ApiKey.JOIN_GROUP: OF_MEMBERS,
        ApiKey.SYNC_GROUP: OF_MEMBERS,
        ApiKey.HEARTBEAT: OF_MEMBERS,
        ApiKey.LEAVE_GROUP: OF_MEMBERS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: whole(
            named(Op.READ, GROUP, "group_id"), groups.subscribed_topics
        ),
        ApiKey.OFFSET_COMMIT: parts("topics", "topics", topic_part(Op.READ), before=OF_MEMBERS),
        ApiKey.OFFSET_FETCH: groups.offset_fetch,
        ApiKey.OFFSET_DELETE: groups.offset_delete,
        ApiKey.DESCRIBE_GROUPS: then(
            parts("groups", "groups", name_part(Op.DESCRIBE, GROUP)), groups.operations_on_groups
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: then(
            parts("group_ids", "groups", name_part(Op.DESCRIBE, GROUP)), groups.consumer_groups
        ),
        ApiKey.LIST_GROUPS: then(free, groups.list_groups),
        ApiKey.DELETE_GROUPS: parts("groups_names", "results", name_part(Op.DELETE, GROUP)),
        # Transactions
        ApiKey.INIT_PRODUCER_ID: whole(groups.init_producer_id),
        ApiKey.ADD_PARTITIONS_TO_TXN: groups.add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: whole(
            named(Op.WRITE, TRANSACTIONAL_ID, "transactional_id"), named(Op.READ, GROUP, "group_id")
        ),
        ApiKey.TXN_OFFSET_COMMIT: parts(
            "topics",
            "topics",
            topic_part(Op.READ),
            before=whole(
                named(Op.WRITE, TRANSACTIONAL_ID, "transactional_id"),
                named(Op.READ, GROUP, "group_id"),
            ),
        ),
        ApiKey.END_TXN: whole(named(Op.WRITE, TRANSACTIONAL_ID, "transactional_id")),
        ApiKey.WRITE_TXN_MARKERS: whole(cluster(Op.ALTER, Op.CLUSTER_ACTION)),
        ApiKey.DESCRIBE_PRODUCERS: parts("topics", "topics", topic_part(Op.READ)),
        ApiKey.DESCRIBE_TRANSACTIONS: then(
            parts(
                "transactional_ids", "transaction_states", name_part(Op.DESCRIBE, TRANSACTIONAL_ID)
            ),
            groups.topics_of_transactions,
        ),
        ApiKey.LIST_TRANSACTIONS: then(free, groups.list_transactions),
        # The metrics of clients
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: free,
        ApiKey.PUSH_TELEMETRY: free,
        # Topics and settings
        ApiKey.CREATE_TOPICS: then(
            parts("topics", "topics", topics.created_topic), topics.hide_settings_of_created
        ),
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.CREATE_PARTITIONS: parts("topics", "results", topic_part(Op.ALTER)),
        ApiKey.DESCRIBE_CONFIGS: parts(
            "resources", "results", topics.settings_part(Op.DESCRIBE_CONFIGS)
        ),
        ApiKey.ALTER_CONFIGS: parts(
            "resources", "responses", topics.settings_part(Op.ALTER_CONFIGS)
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: parts(
            "resources", "responses", topics.settings_part(Op.ALTER_CONFIGS)
        ),
        ApiKey.LIST_CONFIG_RESOURCES: whole(cluster(Op.DESCRIBE_CONFIGS)),
        # Operating the cluster
        ApiKey.DESCRIBE_ACLS: whole(cluster(Op.DESCRIBE)),
        ApiKey.CREATE_ACLS: OF_ADMINISTRATORS,
        ApiKey.DELETE_ACLS: OF_ADMINISTRATORS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: whole(cluster(Op.DESCRIBE)),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: OF_ADMINISTRATORS,
        ApiKey.CREATE_DELEGATION_TOKEN: tokens.create_token,
        ApiKey.RENEW_DELEGATION_TOKEN: free,
        ApiKey.EXPIRE_DELEGATION_TOKEN: free,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: free,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: whole(cluster(Op.DESCRIBE_CONFIGS)),
        ApiKey.ALTER_REPLICA_LOG_DIRS: whole(cluster(Op.ALTER)),
        ApiKey.DESCRIBE_LOG_DIRS: whole(cluster(Op.DESCRIBE)),
        ApiKey.ELECT_LEADERS: OF_ADMINISTRATORS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: OF_ADMINISTRATORS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: whole(cluster(Op.DESCRIBE)),
        ApiKey.DESCRIBE_QUORUM: whole(cluster(Op.DESCRIBE)),
        ApiKey.UNREGISTER_BROKER: OF_ADMINISTRATORS,
        ApiKey.ADD_RAFT_VOTER: OF_ADMINISTRATORS,
        ApiKey.REMOVE_RAFT_VOTER: OF_ADMINISTRATORS,
        ApiKey.UPDATE_FEATURES: OF_ADMINISTRATORS,
        # Between nodes
        ApiKey.ENVELOPE: OF_NODES,
        ApiKey.VOTE: OF_NODES,
        ApiKey.BEGIN_QUORUM_EPOCH: OF_NODES,
        ApiKey.END_QUORUM_EPOCH: OF_NODES,
        ApiKey.FETCH_SNAPSHOT: OF_NODES,
        ApiKey.UPDATE_RAFT_VOTER: OF_NODES,
        ApiKey.BROKER_REGISTRATION: OF_NODES,
        ApiKey.BROKER_HEARTBEAT: OF_NODES,
        ApiKey.CONTROLLER_REGISTRATION: OF_NODES,
        ApiKey.ALLOCATE_PRODUCER_IDS: OF_NODES,
        ApiKey.ALTER_PARTITION: OF_NODES,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: OF_NODES,
    }
)

# Where the listeners of controllers differ: what is fetched there is the metadata log, and the
# controllers are for administrators to know (KIP-919).
RULES_OF_CONTROLLERS: Mapping[ApiKey, Rule] = MappingProxyType(
    {
        **RULES,
        ApiKey.FETCH: OF_NODES,
        ApiKey.DESCRIBE_CLUSTER: then(OF_ADMINISTRATORS, topics.describe_cluster),
    }
)
