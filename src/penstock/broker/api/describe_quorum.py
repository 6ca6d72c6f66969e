"""DescribeQuorum: who leads the metadata quorum, and how far its voters and observers have come.

Only the leader knows: a controller that does not lead says so. Brokers forward the request
(`describe_quorum_forwarded`).
"""

from penstock.broker.controller.quorum_driver import QuorumDriver
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.raft.description import QuorumDescription, ReplicaProgress
from penstock.raft.wire_form.envelope import NO_NODE, PARTITION, directory_or_zero
from penstock.raft.wire_form.voters import endpoints_of
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumNode,
    QuorumPartition,
    QuorumReplica,
    QuorumTopic,
)
from penstock.wire.messages.endpoints import NamedEndpoint

UNKNOWN = -1


def handle(
    services: NodeServices, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, one.partition_index) for topic in request.topics
             for one in topic.partitions]  # fmt: skip
    if asked != [(METADATA_TOPIC, PARTITION)]:
        return DescribeQuorumResponse(
            topics=[
                QuorumTopic(
                    topic_name=topic.topic_name,
                    partitions=[
                        _refused(one.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    described = services.quorum.describe()
    if described is None:
        partition = _refused(PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    else:
        partition = _partition(described, now_ms=services.world.clock.now_ms())
    return DescribeQuorumResponse(
        topics=[QuorumTopic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=[] if described is None else _voters(services.quorum),
    )


def refuse(
    request: DescribeQuorumRequest, code: ErrorCode, message: str | None
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=message)


def _partition(described: QuorumDescription, *, now_ms: int) -> QuorumPartition:
    return QuorumPartition(
        partition_index=PARTITION,
        error_message="",  # as Apache Kafka, where there is no error
        leader_id=described.leader_id,
        leader_epoch=described.epoch,
        high_watermark=described.high_watermark,
        current_voters=[_replica(one, now_ms=now_ms) for one in described.voters],
        observers=[_replica(one, now_ms=now_ms) for one in described.observers],
    )


def _voters(quorum: QuorumDriver) -> list[QuorumNode]:
    return [
        QuorumNode(node_id=node_id, listeners=_listeners(quorum, node_id))
        for node_id in quorum.voters.node_ids
    ]


def _listeners(quorum: QuorumDriver, node_id: NodeId) -> list[NamedEndpoint]:
    """As the log names them, or the settings."""
    named = endpoints_of(quorum.voters.details_of(node_id))
    address = quorum.address_of(node_id)
    if named or address is None:
        return named
    return [NamedEndpoint(name=quorum.member.listener, host=address.host, port=address.port)]


def _replica(progress: ReplicaProgress, *, now_ms: int) -> QuorumReplica:
    fetched, caught_up = progress.fetched_age_ms, progress.caught_up_age_ms
    return QuorumReplica(
        replica_id=progress.key.node_id,
        replica_directory_id=directory_or_zero(progress.key),
        log_end_offset=UNKNOWN if progress.end_offset is None else progress.end_offset,
        last_fetch_timestamp=UNKNOWN if fetched is None else now_ms - fetched,
        last_caught_up_timestamp=UNKNOWN if caught_up is None else now_ms - caught_up,
    )


def _refused(partition: int, code: ErrorCode) -> QuorumPartition:
    return QuorumPartition(
        partition_index=partition,
        error_code=code,
        error_message=code.name,
        leader_id=NO_NODE,
        leader_epoch=UNKNOWN,
        high_watermark=UNKNOWN,
    )


API = Api(
    key=ApiKey.DESCRIBE_QUORUM,
    versions=DescribeQuorumRequest.VERSIONS,
    request=DescribeQuorumRequest,
    handle=handle,
    refuse=refuse,
)
