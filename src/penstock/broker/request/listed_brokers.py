"""Which brokers clients are told of in Metadata: the unfenced, and for a while those just fenced.

A broker whose process dies is fenced within milliseconds here, and its partitions have other
leaders at once. Clients learn that from the partitions. If the broker also vanished from the list
at once, those that forget brokers which are not listed would lose connections, back-off times and
remembered coordinators for a mere restart: librdkafka's send_offsets_to_transaction then never
returns. Apache Kafka lists a dead broker until its session ends, and clients are made for that; so
a fenced broker is listed here for the length of a session, too.

DescribeCluster and the replicas that are offline in Metadata tell the state as it is.
"""

from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.image import Delta, Image
from penstock.model.identity import NodeId


class ListedBrokers:
    """Of one node, which hears of fencings by the metadata. Times are of the monotonic clock."""

    def __init__(self, *, session_ms: int = 0) -> None:
        self._session_ms = session_ms
        self._fenced_ms: dict[NodeId, int] = {}  # since when, of those that were unfenced before

    def note(self, delta: Delta, before: Image, after: Image, *, now_ms: int) -> None:
        """A change of the metadata."""
        for node_id in delta.brokers_changed:
            broker, known = after.brokers.get(node_id), before.brokers.get(node_id)
            if broker is None or not broker.fenced:
                self._fenced_ms.pop(node_id, None)
            elif known is not None and not known.fenced:
                self._fenced_ms[node_id] = now_ms

    def has(self, broker: BrokerImage, *, now_ms: int) -> bool:
        if not broker.fenced:
            return True
        fenced_ms = self._fenced_ms.get(broker.node_id)
        return fenced_ms is not None and now_ms < fenced_ms + self._session_ms
