"""The room of a broker is what its disks tell, without a reserve."""

from penstock.client.admin.admin import LogDirectory
from penstock.client.admin.disk_room import added_bytes, room_of
from penstock.client.admin.replication_throttle import Move
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition

OFFLINE = Refused(ErrorCode.KAFKA_STORAGE_ERROR, "disk")


def directory(
    total_bytes: int | None, usable_bytes: int | None, error: Refused | None = None
) -> LogDirectory:
    return LogDirectory(
        node_id=NodeId(1),
        path="/disk",
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        replicas=(),
        error=error,
    )


def test_a_twentieth_of_each_disk_is_left_free() -> None:
    assert room_of([directory(1_000, 300)]) == 250
    assert room_of([directory(1_000, 300), directory(2_000, 90)]) == 250
    assert room_of([directory(1_000, 300), directory(1_000, 300)]) == 250, "one disk"
    assert room_of([directory(1_000, 300), directory(None, None, OFFLINE)]) == 250


def test_what_is_not_told_is_not_known() -> None:
    assert room_of([directory(None, None)]) is None
    assert room_of([directory(1_000, 300), directory(None, None)]) is None


def test_new_replicas_need_what_they_have_yet_to_copy() -> None:
    one, other = (TopicPartition("t", index) for index in range(2))
    moves = [
        Move(partition=one, replicas=(NodeId(1), NodeId(2)), target=(NodeId(3), NodeId(2))),
        Move(partition=other, replicas=(NodeId(1),), target=(NodeId(3), NodeId(4))),
    ]
    sizes = {one: {NodeId(1): 90, NodeId(2): 100, NodeId(3): 40}, other: {NodeId(1): 7}}
    assert added_bytes(moves, sizes) == {3: 60 + 7, 4: 7}
