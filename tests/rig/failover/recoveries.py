"""Whether a node was killed in the middle of the recovery of its logs.

After a kill a start scans the segments that `unscanned` names. `Recovery` looks at a node as it
starts, until the scan comes to one of them. A node that is killed then was in the middle of its
recovery, unless it has logged by that time that all of it is done.
"""

import time
from pathlib import Path

from rig.failover.cluster import Software
from rig.failover.truncations import segments_of
from rig.served_cluster import NodeProcess

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
BEGUN_SECONDS_MAX = 120.0  # from the start of a node until it scans
LOOK_SECONDS = 0.0002


def unscanned(directory: Path) -> list[Path]:
    """The segments of a partition that begin at its recovery point or above, in order."""
    recovery_point = recovery_point_of(directory)
    return [one for one in segments_of(directory) if int(one.stem) >= recovery_point]


def recovery_point_of(directory: Path) -> int:
    """As the checkpoint of a node that is down has it: version, count, and a line of each
    partition. Penstock and Apache Kafka write the same.
    """
    checkpoint = directory.parent / RECOVERY_POINTS
    if not checkpoint.exists():
        return 0
    for line in checkpoint.read_text().splitlines()[2:]:
        topic, partition, offset = line.split(" ")
        if f"{topic}-{partition}" == directory.name:
            return int(offset)
    return 0


class Recovery:
    """Of a node that is down, and is going to be started; `segment` is one that is unscanned."""

    def __init__(self, node: NodeProcess, software: Software, segment: Path) -> None:
        self._node, self._software, self._segment = node, software, segment
        self._logged_bytes = node.log.stat().st_size if node.log.exists() else 0

    def until_begun(self, *, seconds_max: float = BEGUN_SECONDS_MAX) -> bool:
        """Until the scan comes to the segment; False if all is done and it was not seen to."""
        node, software = self._node, self._software
        deadline = time.monotonic() + seconds_max
        while not software.has_begun_to_scan(self._segment, node, logged=self._logged()):
            if self.is_over() or time.monotonic() > deadline:
                return False
            assert node.running, f"{node.name} ended as it recovered: {self._logged()[-3000:]}"
            time.sleep(LOOK_SECONDS)
        return True

    def is_over(self) -> bool:
        """Whether the node has logged it; asked of a node that was killed, it stays as it is."""
        return self._software.recovered.search(self._logged()) is not None

    def _logged(self) -> str:
        """Since it was started."""
        with open(self._node.log, "rb") as log:
            log.seek(self._logged_bytes)
            return log.read().decode("utf-8", "replace")
