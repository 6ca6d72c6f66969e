"""Every API that is served on a controller's listener.

Requests of other controllers and of brokers, and those of administrators (KIP-919), which the
active controller answers and the others refuse with NOT_CONTROLLER.
"""

from penstock.broker.api import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_controllers,
    describe_quorum,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch_metadata_log,
    fetch_snapshot,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    vote,
)
from penstock.broker.request.api_table import AnyApi

SERVED_BY_CONTROLLERS: tuple[AnyApi, ...] = (
    fetch_metadata_log.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    alter_configs.API,
    create_partitions.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    vote.API,
    begin_quorum_epoch.API,
    end_quorum_epoch.API,
    describe_quorum.API,
    alter_partition.API,
    envelope.API,
    fetch_snapshot.API,
    describe_controllers.API,
    describe_configs.API,
    broker_registration.API,
    broker_heartbeat.API,
    unregister_broker.API,
    allocate_producer_ids.API,
    controller_registration.API,
    assign_replicas_to_dirs.API,
)
