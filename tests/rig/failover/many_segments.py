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
RECORDS_A_BATCH, RECORD_BYTES = 9, 100_000
TIMEOUT_MS = 10_000


class ManySegments:
    """`records` are those of all partitions. With acks of 1 their outcome is open: a follower may
    have some of them.
    """

    def __init__(self, producer: str, *, partitions: int) -> None:
        self.records = AckedRecords(producer, partitions=partitions)

    def write(self, address: str, topic: str, partition: int) -> bool:
        """Whether the node at this address leads the partition, and has taken them."""
        with closing(Dialogue(address, topic)) as dialogue:
            for _ in range(SEGMENTS):
                data = PartitionProduceData(index=partition, records=self._batch(partition))
                request = ProduceRequest(
                    acks=1,
                    timeout_ms=TIMEOUT_MS,
                    topic_data=[TopicProduceData(name=topic, partition_data=[data])],
                )
                reply = dialogue.exchange(request, version=9)
                if reply.responses[0].partition_responses[0].error_code != ErrorCode.NONE:
                    return False
        return True

    def _batch(self, partition: int) -> bytes:
        """Numbers of this partition; those between them are passed over."""
        start, partitions = self.records.sent, self.records.partitions
        self.records.was_sent(start + RECORDS_A_BATCH * partitions)
        name = self.records.producer.encode()
        now_ms = int(time.time() * 1000)
        return build_batch(
            [
                Record(
                    key=None,
                    value=b"%s:%d:" % (name, number) + bytes(RECORD_BYTES),
                    timestamp_ms=now_ms,
                )
                for number in range(start + partition, self.records.sent, partitions)
            ]
        )
