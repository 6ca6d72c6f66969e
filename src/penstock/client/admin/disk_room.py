"""Whether copies fit on the disks of the brokers that get them.

A broker tells how much room each of its log directories has, since version 4 of DescribeLogDirs.
Where one does not tell, nothing is refused. What moves away frees room only later, so that it is
not counted.
"""

from collections.abc import Iterable, Mapping

from penstock.client.admin.admin import Admin, LogDirectory
from penstock.client.admin.replica_sizes import Sizes
from penstock.client.admin.replication_throttle import Move
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.model.identity import NodeId

RESERVE_SHARE = 0.05  # of a disk: a full one is a broker that is down


class NoRoom(ClientError):
    """A broker would get more than fits on its disks."""


def added_bytes(moves: Iterable[Move], sizes: Sizes) -> dict[NodeId, int]:
    """What each broker has yet to copy for these moves."""
    found: dict[NodeId, int] = {}
    for move in moves:
        held = sizes.get(move.partition, {})
        whole = max(held.values(), default=0)
        for node in move.added:
            found[node] = found.get(node, 0) + whole - held.get(node, 0)
    return found


async def find_no_room(cluster: Cluster, added: Mapping[NodeId, int]) -> NoRoom | None:
    """Why the first of the brokers that have too little room cannot get so many bytes."""
    for node, wanted_bytes in sorted(added.items()):
        try:
            told = (await Admin(cluster).log_directories([node], partitions=()))[node]
        except ClientError:
            continue  # it is down, and copies nothing for now
        room_bytes = None if isinstance(told, Refused) else room_of(told)
        if wanted_bytes and room_bytes is not None and wanted_bytes > room_bytes:
            return NoRoom(
                f"broker {node} would get {wanted_bytes} bytes and has room for {room_bytes}, with"
                f" {RESERVE_SHARE:.0%} of the disk left free: give --ignore-room to move them"
                " nevertheless"
            )
    return None


def room_of(directories: Iterable[LogDirectory]) -> int | None:
    """None if it is not told. Directories with the same figures are on one disk."""
    disks: set[tuple[int, int]] = set()
    for one in directories:
        if one.error is not None:
            continue
        if one.total_bytes is None or one.usable_bytes is None:
            return None
        disks.add((one.total_bytes, one.usable_bytes))
    return sum(max(0, usable - int(total * RESERVE_SHARE)) for total, usable in disks)
