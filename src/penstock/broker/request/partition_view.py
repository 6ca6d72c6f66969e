"""One partition as clients on one listener may see it: its leader, if they can reach it."""

from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass

NO_LEADER = -1


@dataclass(slots=True, kw_only=True)
class PartitionView:
    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


def view_partition(
    image: Image,
    partition: PartitionImage,
    listener: str,
    *,
    leader_offline: bool = False,
    leader_lost: bool = False,
) -> PartitionView:
    """A leader without an endpoint on the client's listener is as good as none.

    So is one whose disk has failed (`leader_offline`), or whose process has just ended
    (`leader_lost`): a client that is told of it again tries it again, and librdkafka then asks for
    another only once a second; while there is none it asks ten times as often. A replica is offline
    if its broker is not there, or does not have the replica's log directory, or log, any more.
    """
    offline = [
        node
        for node in partition.replicas
        if node not in image.brokers
        or image.brokers[node].fenced
        or (leader_offline and node == partition.leader)
        or not image.brokers[node].has_directory(partition.directory(node))
    ]
    leader = None if partition.leader is None else image.brokers.get(partition.leader)
    if leader is None or leader.fenced or leader_offline or leader_lost:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif leader.endpoint(listener) is None:
        code = ErrorCode.LISTENER_NOT_FOUND
    else:
        return PartitionView(
            error_code=ErrorCode.NONE, leader_id=leader.node_id, offline_replicas=list(offline)
        )
    return PartitionView(error_code=code, leader_id=NO_LEADER, offline_replicas=list(offline))
