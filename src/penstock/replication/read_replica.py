"""Which replica a consumer is to read from: one in its own rack, if there is one (KIP-392).

As Apache Kafka's RackAwareReplicaSelector decides it. The leader answers a consumer of another rack
with the follower to ask; of several it is the one that has most, then the one that was caught up
last. Followers that are out of sync are left out: a consumer would lag behind with them for good.
"""

from collections.abc import Mapping

from penstock.model.identity import NodeId
from penstock.replication.followers import Followers


def nearer_follower(
    followers: Followers,
    *,
    rack: str,
    own_rack: str | None,
    racks: Mapping[NodeId, str | None],
    fetch_offset: int,
) -> NodeId | None:
    """None: the leader itself is to be read from. `racks` are those of brokers that live and can
    be reached where the consumer asked.
    """
    if not rack or own_rack == rack:
        return None
    found = None
    best = (-1, -1, -1)
    for node in followers.replicas:
        state = followers.get(node)
        if state is None or node not in followers.in_sync or racks.get(node) != rack:
            continue
        if not state.log_start_offset <= fetch_offset <= state.end_offset:
            continue
        rank = (int(state.end_offset), state.caught_up_ms, int(node))
        if found is None or rank > best:
            found, best = node, rank
    return found
