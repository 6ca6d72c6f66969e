"""What a producer is told, right or wrong, is what Apache Kafka would have told it."""

import time
from collections.abc import Callable

import pytest

from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.apache_kafka.broker import ApacheKafka
from rig.dialogue import Dialogue
from rig.serve import ServedNode

NOON_MS = 1_700_000_000_000
TWO_HOURS_MS = 2 * 3_600_000


def batch(
    *records: Record,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    codec: Codec = Codec.NONE,
    control: bool = False,
    transactional: bool = False,
) -> bytearray:
    chosen = records or (Record(key=b"k", value=b"v", timestamp_ms=NOON_MS),)
    return build_batch(
        chosen,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        base_sequence=sequence,
        codec=codec,
        control=control,
        transactional=transactional,
    )


def produce(
    dialogue: Dialogue,
    data: bytearray | None,
    *,
    version: int = 12,
    partition: int = 0,
    acks: int = -1,
    topic: str | None = None,
    topic_id: bytes = bytes(16),
) -> None:
    part = PartitionProduceData(index=partition, records=data)
    topic_data = TopicProduceData(
        name=topic or dialogue.topic, topic_id=topic_id, partition_data=[part]
    )
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic_data])
    dialogue.ask(request, version=version)


def every_version(dialogue: Dialogue) -> None:
    topic_id = dialogue.create_topic()
    for version in range(3, 13):
        produce(dialogue, batch(), version=version)
    produce(dialogue, batch(), version=13, topic_id=topic_id)


def leader_only(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch(), acks=1)


def places_that_are_not_there(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch(), topic="no-such-topic")
    produce(dialogue, batch(), partition=7)
    produce(dialogue, batch(), partition=-1)
    produce(dialogue, batch(), version=13, topic_id=bytes(range(16)))


def unheard_of_acks(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch(), acks=2)


def a_wrong_checksum(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    damaged = batch()
    damaged[-1] ^= 0xFF
    produce(dialogue, damaged)


def two_batches(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch() + batch())


def no_batch(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, bytearray())


def a_control_batch(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch(control=True, producer_id=1, epoch=0, sequence=0))


def a_magic_of_old(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    old = batch()
    old[16] = 1
    produce(dialogue, old)


def a_codec_that_is_none(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    odd = batch()
    odd[22] |= 0b111
    produce(dialogue, odd)


def no_key_on_a_compacted_topic(dialogue: Dialogue) -> None:
    dialogue.create_topic(cleanup_policy="compact")
    records = [Record(key=key, value=b"v", timestamp_ms=NOON_MS) for key in (b"k", None, None)]
    for codec in Codec:
        produce(dialogue, batch(*records, codec=codec))


def a_clock_that_is_ahead(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    now_ms = int(time.time() * 1000)
    records = [
        Record(key=b"k", value=b"v", timestamp_ms=stamp)
        for stamp in (now_ms, now_ms + TWO_HOURS_MS, now_ms + TWO_HOURS_MS)
    ]
    for codec in (Codec.NONE, Codec.GZIP):
        produce(dialogue, batch(*records, codec=codec))


def too_large(dialogue: Dialogue) -> None:
    dialogue.create_topic(max_message_bytes="1000")
    produce(dialogue, batch(Record(key=None, value=bytes(2_000), timestamp_ms=NOON_MS)))


def append_time(dialogue: Dialogue) -> None:
    dialogue.create_topic(message_timestamp_type="LogAppendTime")
    produce(dialogue, batch())


def sender(dialogue: Dialogue) -> Callable[..., None]:
    """Sends what a new producer does."""
    question = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    mine = dialogue.ask_until_loaded(question, version=4).producer_id

    def send(sequence: int, *, epoch: int = 0, count: int = 1) -> None:
        records = [Record(key=b"k", value=b"v", timestamp_ms=NOON_MS)] * count
        produce(dialogue, batch(*records, producer_id=mine, epoch=epoch, sequence=sequence))

    return send


def older_than_five(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    send = sender(dialogue)
    send(0)
    send(1, count=3)
    for sequence in range(4, 9):
        send(sequence)
    send(0)
    send(1, count=3)


def sequences(dialogue: Dialogue) -> None:
    """In order, repeated, with a gap, after a bump of the epoch, and of an epoch gone by."""
    dialogue.create_topic(partitions=2)
    question = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000)
    dialogue.ask(question, version=4)  # a transactional id may be missing, but not empty
    send = sender(dialogue)
    send(0)
    send(1, count=3)
    send(0)
    send(1, count=3)
    send(1, count=2)
    send(9)
    for sequence in range(4, 10):
        send(sequence)
    send(5)
    send(3, epoch=1)
    send(0, epoch=1)
    send(1, epoch=1)
    send(1, epoch=0)
    send(0, epoch=1)


def a_producer_nobody_knows(dialogue: Dialogue) -> None:
    dialogue.create_topic()
    produce(dialogue, batch(producer_id=987_654, epoch=3, sequence=0))
    produce(dialogue, batch(producer_id=987_655, epoch=3, sequence=17))
    produce(dialogue, batch(producer_id=987_655, epoch=3, sequence=18))


@pytest.mark.parametrize(
    "talk",
    [
        every_version,
        leader_only,
        places_that_are_not_there,
        unheard_of_acks,
        a_wrong_checksum,
        two_batches,
        no_batch,
        a_control_batch,
        a_magic_of_old,
        a_codec_that_is_none,
        no_key_on_a_compacted_topic,
        a_clock_that_is_ahead,
        too_large,
        append_time,
        sequences,
        a_producer_nobody_knows,
    ],
    ids=lambda talk: talk.__name__,
)
def test_a_producer_is_answered_as_by_apache_kafka(
    talk: Callable[[Dialogue], None],
    assert_same_answers: Callable[[Callable[[Dialogue], None]], None],
) -> None:
    assert_same_answers(talk)


def test_duplicates_older_than_five_batches_are_acked_where_apache_kafka_refuses_them(
    apache_kafka: ApacheKafka, served_node: ServedNode
) -> None:
    """ADR 56. Clients take the code for an ack."""
    told: list[list[int]] = []
    for bootstrap in (apache_kafka.bootstrap, served_node.bootstrap):
        dialogue = Dialogue(bootstrap, "old-duplicates")
        older_than_five(dialogue)
        dialogue.close()
        last_two = [answer for _, _, answer in dialogue.answers[-2:]]
        parts = [answer["responses"][0]["partition_responses"][0] for answer in last_two]
        told.append([part["error_code"] for part in parts])
    refused, acked = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert told == [[refused] * 2, [acked] * 2]
