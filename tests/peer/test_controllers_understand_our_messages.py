"""A controller of Apache Kafka understands each version of what nodes of a cluster send it.

Nothing is changed by it: what would change something is sent for another cluster, an older epoch,
or a broker that does not exist.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID
from penstock.records.batch import whole_batches
from penstock.records.control import ControlType, control_type
from penstock.records.iterate import records_of
from penstock.wire.definition import Message
from penstock.wire.embedded import write_embedded
from penstock.wire.header import decode_response, encode_request
from penstock.wire.messages.add_raft_voter import AddRaftVoterRequest
from penstock.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from penstock.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochPartition,
    BeginQuorumEpochRequest,
    BeginQuorumEpochTopic,
)
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from penstock.wire.messages.elect_leaders import ElectedTopicPartitions, ElectLeadersRequest
from penstock.wire.messages.end_quorum_epoch import (
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochTopic,
    PreferredCandidate,
)
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from penstock.wire.messages.fetch_snapshot import FetchSnapshotRequest
from penstock.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.wire.messages.registration_parts import RegisteredListener, SupportedFeature
from penstock.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from penstock.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from penstock.wire.messages.vote import VotePartition, VoteRequest, VoteTopic
from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue

LEADER = 1
NOBODY = 99
DIRECTORY_ID = b"directory-of-99-"
LISTENERS = [NamedEndpoint(name="CONTROLLER", host="127.0.0.1", port=1)]


@pytest.fixture
def controller(apache_kafka: ApacheKafka) -> Iterator[Dialogue]:
    dialogue = Dialogue(apache_kafka.controller, "of-nobody")
    yield dialogue
    dialogue.close()


BEGIN = BeginQuorumEpochRequest(
    voter_id=LEADER,
    topics=[
        BeginQuorumEpochTopic(
            topic_name=METADATA_TOPIC,
            partitions=[BeginQuorumEpochPartition(leader_id=LEADER, leader_epoch=0)],
        )
    ],
    leader_endpoints=LISTENERS,
)
END = EndQuorumEpochRequest(
    topics=[
        EndQuorumEpochTopic(
            topic_name=METADATA_TOPIC,
            partitions=[
                EndQuorumEpochPartition(
                    leader_id=LEADER,
                    leader_epoch=0,
                    preferred_successors=[LEADER],
                    preferred_candidates=[
                        PreferredCandidate(candidate_id=LEADER, candidate_directory_id=DIRECTORY_ID)
                    ],
                )
            ],
        )
    ],
    leader_endpoints=LISTENERS,
)


@pytest.mark.parametrize("request_sent", [BEGIN, END], ids=lambda sent: type(sent).__name__)
def test_messages_of_an_older_epoch_are_fenced_and_learn_of_the_leader(
    controller: Dialogue, request_sent: Message
) -> None:
    for version in versions_of(request_sent):
        reply = controller.exchange(request_sent, version=version)
        assert reply.error_code == ErrorCode.NONE
        [topic] = reply.topics
        [partition] = topic.partitions
        assert topic.topic_name == METADATA_TOPIC
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert partition.leader_id == LEADER
        assert partition.leader_epoch > 0
        assert named(reply) == ([LEADER] if version >= 1 else [])


@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_is_refused_where_there_is_a_leader(controller: Dialogue, pre_vote: bool) -> None:
    epoch = described(controller, version=2).topics[0].partitions[0].leader_epoch
    partition = VotePartition(
        replica_epoch=epoch,
        replica_id=LEADER,
        replica_directory_id=DIRECTORY_ID,
        last_offset_epoch=epoch - 1,
        last_offset=1,
        pre_vote=pre_vote,
    )
    topic = VoteTopic(topic_name=METADATA_TOPIC, partitions=[partition])
    request = VoteRequest(voter_id=LEADER, topics=[topic])
    for version in versions_of(request):
        reply = controller.exchange(request, version=version)
        [result] = reply.topics[0].partitions
        assert (reply.error_code, result.error_code, result.vote_granted) == (0, 0, False)
        assert (result.leader_id, result.leader_epoch) == (LEADER, epoch)
        assert named(reply) == ([LEADER] if version >= 1 else [])


UNREGISTERED = BrokerRegistrationRequest(
    broker_id=NOBODY,
    cluster_id="another",
    incarnation_id=DIRECTORY_ID,
    listeners=[RegisteredListener(name="PLAINTEXT", host="127.0.0.1", port=1)],
    features=[SupportedFeature(name="metadata.version", max_supported_version=30)],
    rack="a",
    log_dirs=[DIRECTORY_ID],
)
STALE_HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=NOBODY, broker_epoch=3, offline_log_dirs=[DIRECTORY_ID], cordoned_log_dirs=[]
)
UNKNOWN_VOTER = UpdateRaftVoterRequest(
    cluster_id="another", voter_id=NOBODY, voter_directory_id=DIRECTORY_ID, listeners=LISTENERS
)
NO_SUCH_FEATURE = UpdateFeaturesRequest(
    validate_only=True, feature_updates=[FeatureUpdateKey(feature="none", max_version_level=1)]
)
FOREIGN = ErrorCode.INCONSISTENT_CLUSTER_ID
STALE = ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("request_sent", "error"),
    [
        (VoteRequest(cluster_id="another"), FOREIGN),
        (BeginQuorumEpochRequest(cluster_id="another"), FOREIGN),
        (EndQuorumEpochRequest(cluster_id="another"), FOREIGN),
        (FetchSnapshotRequest(cluster_id="another"), FOREIGN),
        (UNREGISTERED, FOREIGN),
        (UNKNOWN_VOTER, FOREIGN),
        (STALE_HEARTBEAT, STALE),
        (AllocateProducerIdsRequest(broker_id=NOBODY, broker_epoch=3), STALE),
        (
            AssignReplicasToDirsRequest(
                broker_id=NOBODY, broker_epoch=3, directories=[DirectoryData(id=DIRECTORY_ID)]
            ),
            STALE,
        ),
        (UnregisterBrokerRequest(broker_id=NOBODY), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (
            AddRaftVoterRequest(
                voter_id=NOBODY, voter_directory_id=DIRECTORY_ID, listeners=LISTENERS
            ),
            ErrorCode.UNSUPPORTED_VERSION,  # voters are static
        ),
        (
            RemoveRaftVoterRequest(voter_id=NOBODY, voter_directory_id=DIRECTORY_ID),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (NO_SUCH_FEATURE, ErrorCode.INVALID_UPDATE_VERSION),
        (ListPartitionReassignmentsRequest(), ErrorCode.NONE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_request_is_answered_with_the_error_of_its_contents(
    controller: Dialogue, request_sent: Message, error: ErrorCode
) -> None:
    for version in versions_of(request_sent):
        assert controller.exchange(request_sent, version=version).error_code == error


@pytest.mark.parametrize(
    ("request_sent", "results_of"),
    [
        (
            ElectLeadersRequest(
                topic_partitions=[ElectedTopicPartitions(topic="none", partitions=[0])]
            ),
            lambda reply: reply.replica_election_results[0].partition_result,
        ),
        (
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name="none", partitions=[ReassignablePartition(replicas=[LEADER])]
                    )
                ]
            ),
            lambda reply: reply.responses[0].partitions,
        ),
    ],
    ids=["ElectLeaders", "AlterPartitionReassignments"],
)
def test_unknown_topic_is_named_in_the_results(
    controller: Dialogue, request_sent: Message, results_of: Callable[[Any], list[Any]]
) -> None:
    for version in versions_of(request_sent):
        [result] = results_of(controller.exchange(request_sent, version=version))
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_quorum_is_described(controller: Dialogue) -> None:
    for version in versions_of(DescribeQuorumRequest()):
        reply = described(controller, version=version)
        [partition] = reply.topics[0].partitions
        [voter] = partition.current_voters
        assert (reply.error_code, partition.error_code) == (0, 0)
        assert partition.leader_id == voter.replica_id == LEADER
        assert 0 < partition.high_watermark <= voter.log_end_offset
        assert (voter.last_caught_up_timestamp > 0) == (version >= 1)
        assert [node.node_id for node in reply.nodes] == ([LEADER] if version >= 2 else [])


@pytest.mark.parametrize("version", [1, 2])
def test_controllers_are_described(controller: Dialogue, version: int) -> None:
    reply = controller.exchange(DescribeClusterRequest(endpoint_type=2), version=version)
    assert (reply.error_code, reply.endpoint_type, reply.controller_id) == (0, 2, LEADER)
    assert [broker.broker_id for broker in reply.brokers] == [LEADER]


@pytest.mark.parametrize("version", [13, 16, 17, 18])
def test_observer_fetches_the_metadata_log(controller: Dialogue, version: int) -> None:
    epoch = described(controller, version=2).topics[0].partitions[0].leader_epoch
    first = fetched(controller, version, epoch=epoch, offset=0)
    assert first.error_code == ErrorCode.NONE
    assert first.diverging_epoch is None
    record = next(iter(records_of(next(whole_batches(first.records)))))
    assert control_type(record) is ControlType.LEADER_CHANGE
    diverged = fetched(controller, version, epoch=epoch, offset=10**9)
    assert diverged.error_code == ErrorCode.NONE
    assert diverged.diverging_epoch.epoch == epoch
    assert first.high_watermark <= diverged.diverging_epoch.end_offset < 10**9


def fetched(controller: Dialogue, version: int, *, epoch: int, offset: int) -> Any:
    partition = FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset > 0 else 0,
        partition_max_bytes=100,
        replica_directory_id=DIRECTORY_ID,
        high_watermark=-1,
    )
    request = FetchRequest(
        replica_id=NOBODY,
        replica_state=ReplicaState(replica_id=NOBODY),
        max_wait_ms=0,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )
    reply = controller.exchange(request, version=version)
    assert named(reply) == ([LEADER] if version >= 17 else [])
    [found] = reply.responses[0].partitions
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (LEADER, epoch)
    return found


def test_forwarded_request_is_answered_inside_an_envelope(controller: Dialogue) -> None:
    wanted = CreatableTopic(name="never-made", num_partitions=2, replication_factor=1)
    forwarded = encode_request(
        CreateTopicsRequest(topics=[wanted], validate_only=True),
        version=7,
        correlation_id=77,
        client_id="client-of-the-broker",
    )
    envelope = EnvelopeRequest(
        request_data=b"".join(bytes(part) for part in forwarded)[4:],  # without its size
        request_principal=write_embedded(
            DefaultPrincipalData(type="User", name="ANONYMOUS"), version=0
        ),
        client_host_address=bytes([127, 0, 0, 1]),
    )
    reply = controller.exchange(envelope, version=0)
    assert reply.error_code == ErrorCode.NONE
    inner = memoryview(reply.response_data)
    assert int.from_bytes(inner[:4], "big") == 77
    [created] = decode_response(CreateTopicsResponse, 7, inner).topics
    assert (created.name, created.error_code, created.num_partitions) == ("never-made", 0, 2)


def versions_of(request: Message) -> range:
    return range(request.VERSIONS.min, request.VERSIONS.max + 1)


def described(controller: Dialogue, *, version: int) -> Any:
    asked = DescribeQuorumTopic(topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition()])
    return controller.exchange(DescribeQuorumRequest(topics=[asked]), version=version)


def named(reply: Any) -> list[int]:
    """The nodes whose endpoints a reply tells."""
    return [endpoint.node_id for endpoint in reply.node_endpoints]
