"""Writes many segments to a partition at once, so that it takes a while to cut or to scan them.

Each request has one batch, which fills the most of a segment of `SEGMENT_BYTES`, so that the next
one begins another.
"""

import time
from contextlib import closing

from penstock.model.error import ErrorCode
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.dialogue import Dialogue
from rig.failover.acked_records import AckedRecords

SEGMENT_BYTES = 1024 * 1024  # the least that a topic may have
SEGMENTS = 40
ACKS_OF_LEADER, ACKS_OF_ALL = 1, -1
RECORDS_A_BATCH, RECORD_BYTES = 9, 100_000
TIMEOUT_MS = 10_000


class ManySegments:
    """`records` are those of all partitions. With acks of 1 their outcome is open: a follower may
    have some of them. What was acked with acks of all is promised.
    """

    def __init__(self, producer: str, *, partitions: int, acks: int) -> None:
        self.records = AckedRecords(producer, partitions=partitions)
        self._acks = acks

    def write(self, address: str, topic: str, partition: int) -> bool:
        """Whether the node at this address leads the partition, and has taken them."""
        with closing(Dialogue(address, topic)) as dialogue:
            for _ in range(SEGMENTS):
                numbers = self._next_numbers(partition)
                data = PartitionProduceData(index=partition, records=self._batch(numbers))
                request = ProduceRequest(
                    acks=self._acks,
                    timeout_ms=TIMEOUT_MS,
                    topic_data=[TopicProduceData(name=topic, partition_data=[data])],
                )
                [reply] = dialogue.exchange(request, version=9).responses[0].partition_responses
                if reply.error_code != ErrorCode.NONE:
                    return False
                if self._acks == ACKS_OF_ALL:
                    for offset, number in enumerate(numbers, reply.base_offset):
                        self.records.acked(number, partition=partition, offset=offset)
        return True

    def _next_numbers(self, partition: int) -> range:
        """Of a batch for this partition; those between them are passed over."""
        start, partitions = self.records.sent, self.records.partitions
        self.records.was_sent(start + RECORDS_A_BATCH * partitions)
        return range(start + partition, self.records.sent, partitions)

    def _batch(self, numbers: range) -> bytes:
        name = self.records.producer.encode()
        now_ms = int(time.time() * 1000)
        return build_batch(
            [
                Record(
                    key=None,
                    value=b"%s:%d:" % (name, number) + bytes(RECORD_BYTES),
                    timestamp_ms=now_ms,
                )
                for number in numbers
            ]
        )
