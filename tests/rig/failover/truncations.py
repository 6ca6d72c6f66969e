"""A leader gets ahead of its followers, so far that it takes a while to cut off what only it has.

`RecordsAhead` writes what is cut off later: many segments, with acks of 1, while the followers
stand still. `Truncation` looks at the files of the partition, when the former leader runs again:
they say when the cut has begun, and of a node that was killed whether it was in the middle of it.
Penstock and Apache Kafka both rename the segments one after the other, the last one first, and
shorten the one that stays at the end.
"""

import time
from contextlib import closing
from pathlib import Path

from penstock.model.error import ErrorCode
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.cluster_questions import ClusterOfProcesses, until
from rig.dialogue import Dialogue
from rig.failover.acked_records import AckedRecords
from rig.failover.questions import leader_of
from rig.failover.replica_logs import batches_in

SEGMENTS_AHEAD = 40
# A batch fills the most of a segment of 1 MiB, so that the next one begins another.
RECORDS_A_BATCH, RECORD_BYTES = 9, 100_000
TIMEOUT_MS = 10_000
BEGUN_SECONDS_MAX = 60.0  # from the start of a node until it truncates
LOOK_SECONDS = 0.0002


class RecordsAhead:
    """Those of all partitions; a follower may have some of them, so that their outcome is open."""

    def __init__(self, *, partitions: int) -> None:
        self.records = AckedRecords("ahead", partitions=partitions)

    def write(self, address: str, topic: str, partition: int) -> bool:
        """Whether the node at this address leads the partition, and has taken them."""
        with closing(Dialogue(address, topic)) as dialogue:
            for _ in range(SEGMENTS_AHEAD):
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
        now_ms = int(time.time() * 1000)
        return build_batch(
            [
                Record(
                    key=None,
                    value=b"ahead:%d:" % number + bytes(RECORD_BYTES),
                    timestamp_ms=now_ms,
                )
                for number in range(start + partition, self.records.sent, partitions)
            ]
        )


class Truncation:
    """Of a partition whose node is down, and is going to be started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._before = segments_of(directory)
        assert self._before, f"nothing is in {directory}"
        self._last_bytes = size_of(self._before[-1])

    def until_begun(self, *, seconds_max: float = BEGUN_SECONDS_MAX) -> bool:
        """Until the log is shorter; False if nothing is cut off in all that time."""
        deadline = time.monotonic() + seconds_max
        while size_of(self._before[-1]) == self._last_bytes:
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def is_half_done(self, *, cut_offset: int, leader_epoch: int) -> bool:
        """Whether a segment is gone, and something of this epoch is left above the offset. What
        the next leader has written there was copied when all was cut off.
        """
        left = segments_of(self._directory)
        return 0 < len(left) < len(self._before) and any(
            batch.end_offset > cut_offset and batch.leader_epoch <= leader_epoch
            for batch in batches_in(left[-1])
        )


def segments_of(directory: Path) -> list[Path]:
    """Those that hold something, in order."""
    return [one for one in sorted(directory.glob("*.log")) if size_of(one)]


def size_of(path: Path) -> int:
    """0 for a file that is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def end_of_epoch(
    cluster: ClusterOfProcesses, topic: str, partition: int, *, leader_epoch: int
) -> int:
    """Where the log of the present leader goes over to a later epoch: a replica that has more
    records of this epoch cuts them off.
    """
    found: list[int] = []
    asked = OffsetForLeaderPartition(partition=partition, leader_epoch=leader_epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )

    def is_known() -> bool:
        address = cluster.addresses[leader_of(cluster, topic, partition)]
        with closing(Dialogue(address, topic)) as dialogue:
            [answer] = dialogue.exchange(request, version=4).topics[0].partitions
        found[:] = [answer.end_offset]
        return answer.error_code == ErrorCode.NONE and answer.end_offset >= 0

    until(f"the end of epoch {leader_epoch} of {topic}-{partition}", is_known)
    return found[0]
