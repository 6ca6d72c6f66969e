"""Records of Apache Kafka in its metadata log and snapshots are read, and written again alike."""

import pytest

from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message
from penstock.wire.messages.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    QuorumVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
)
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.controller import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.no_op import NoOpRecord
from penstock.wire.messages.metadata_records.partition import PartitionRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord
from penstock.wire.messages.metadata_records.transaction import (
    BeginTransactionRecord,
    EndTransactionRecord,
)

TOPIC_ID = bytes.fromhex("2dabee32b67f44bc9af7ece86f7167bd")
INCARNATION_ID = bytes.fromhex("f24527ba4c3f45d99c33f63b8a65e9de")
DIRECTORY_ID = bytes.fromhex("c90f919c7952a2cc6d57f774579d98db")
FEATURES = [
    ("group.version", 0, 1),
    ("kraft.version", 0, 1),
    ("metadata.version", 7, 30),
    ("share.version", 0, 1),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
    ("eligible.leader.replicas.version", 0, 1),
]


@pytest.mark.parametrize(
    ("record", "in_version", "written"),
    [
        (
            LeaderChangeMessage(
                leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)]
            ),
            0,
            "00000000000102000000010002000000010000",
        ),
        (
            SnapshotHeaderRecord(last_contained_log_timestamp=0x1A1E25E5001),
            0,
            "0000000001a1e25e500100",
        ),
        (SnapshotFooterRecord(), 0, "000000"),
        (KRaftVersionRecord(k_raft_version=1), 0, "0000000100"),
        (
            VotersRecord(
                voters=[
                    QuorumVoter(
                        voter_id=1,
                        voter_directory_id=DIRECTORY_ID,
                        endpoints=[NamedEndpoint(name="CONTROLLER", host="127.0.0.1", port=29493)],
                        k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
                    )
                ]
            ),
            0,
            f"00000200000001{DIRECTORY_ID.hex()}020b434f4e54524f4c4c45520a3132372e302e302e31"
            "73350000000001000000",
        ),
        (
            BeginTransactionRecord(name="Bootstrap records"),
            0,
            "01001212426f6f747374726170207265636f726473",
        ),
        (EndTransactionRecord(), 0, "00"),
        (
            RegisterControllerRecord(
                controller_id=1,
                incarnation_id=INCARNATION_ID,
                end_points=[ControllerEndpoint(name="CONTROLLER", host="127.0.0.1", port=29493)],
                features=[
                    ControllerFeature(
                        name=name, min_supported_version=low, max_supported_version=high
                    )
                    for name, low, high in FEATURES
                ],
            ),
            0,
            f"00000001{INCARNATION_ID.hex()}00020b434f4e54524f4c4c45520a3132372e302e302e31733500000008"
            "0e67726f75702e76657273696f6e0000000100"
            "0e6b726166742e76657273696f6e0000000100"
            "116d657461646174612e76657273696f6e0007001e00"
            "0e73686172652e76657273696f6e0000000100"
            "1073747265616d732e76657273696f6e0000000100"
            "147472616e73616374696f6e2e76657273696f6e0000000200"
            "21656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e0000000100"
            "00",
        ),
        (
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            0,
            "116d657461646174612e76657273696f6e001e00",
        ),
        (
            ConfigRecord(resource_type=4, name="min.insync.replicas", value="1"),
            0,
            "0401146d696e2e696e73796e632e7265706c69636173023100",
        ),
        (NoOpRecord(), 0, "00"),
        (TopicRecord(name="orders", topic_id=TOPIC_ID), 0, f"076f7264657273{TOPIC_ID.hex()}00"),
        (
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY_ID],
            ),
            2,
            f"00000000{TOPIC_ID.hex()}02000000010200000001010100000001"
            f"000000000000000002{DIRECTORY_ID.hex()}00",
        ),
        (RemoveTopicRecord(topic_id=TOPIC_ID), 0, f"{TOPIC_ID.hex()}00"),
        (
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, cordoned_log_dirs=[]),
            3,
            "00000001000000000000000d01030101",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, fenced=-1),
            0,
            "00000001000000000000000d010001ff",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_record_of_apache_kafka_is_read_and_written_alike(
    record: Message, in_version: int, written: str
) -> None:
    data = bytes.fromhex(written)
    assert decode_exact(type(record), in_version, memoryview(data)) == record
    assert encode(record, in_version) == data
