"""What a Python process of Spark remembers from batch to batch. Spark keeps such processes for the
next batch of the same kind of work, so each begins with what the last one found.

Nothing here has to be true: brokers say when a coordinator has moved.
"""

from penstock.client.network.cluster import Cluster
from penstock.model.identity import NodeId

IDS_MAX = 65_536  # transactional ids; beyond it all are looked up anew

_coordinators: dict[str, dict[str, NodeId]] = {}  # by cluster, then by transactional id


def coordinators_in(cluster: Cluster) -> dict[str, NodeId]:
    """The coordinators found so far, by transactional id; what is added is remembered."""
    cluster_id = cluster.view.cluster_id
    if cluster_id is None:
        return {}
    if sum(map(len, _coordinators.values())) > IDS_MAX:
        _coordinators.clear()
    return _coordinators.setdefault(cluster_id, {})
