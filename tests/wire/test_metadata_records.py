"""Records that Apache Kafka wrote into its metadata log are read, and written again alike."""

import pytest

from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message
from penstock.wire.messages.control_records import LeaderChangeMessage, Voter
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.no_op import NoOpRecord
from penstock.wire.messages.metadata_records.partition import PartitionRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord
from penstock.wire.messages.metadata_records.transaction import BeginTransactionRecord

TOPIC_ID = bytes.fromhex("2dabee32b67f44bc9af7ece86f7167bd")
DIRECTORY_ID = bytes.fromhex("c90f919c7952a2cc6d57f774579d98db")


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
            BeginTransactionRecord(name="Bootstrap records"),
            0,
            "01001212426f6f747374726170207265636f726473",
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
