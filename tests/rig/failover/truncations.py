"""Whether a node was killed in the middle of a truncation.

`Truncation` looks at the files of a partition, when a former leader runs again that was far ahead
of its followers (`ManySegments`): they say when the cut has begun, and of a node that was killed
whether it was in the middle of it. Penstock and Apache Kafka both rename the segments one after the
other, the last one first, and shorten the one that stays at the end.
"""

import time
from contextlib import closing
from pathlib import Path

from penstock.model.error import ErrorCode
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from rig.cluster_questions import ClusterOfProcesses, until
from rig.dialogue import Dialogue
from rig.failover.questions import leader_of
from rig.failover.replica_logs import batches_in

BEGUN_SECONDS_MAX = 60.0  # from the start of a node until it truncates
LOOK_SECONDS = 0.0002


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
