"""Which request for markers is the latest of each node.

A node has one such request outstanding. When its reply is late the node closes the connection and
sends the markers again on a new one, while the bytes of the first request may still wait to be
read. A marker that is written after its transaction has ended would end the next transaction of a
client of generation 1, whose transactions share one epoch. So a request that a later one has
replaced writes nothing more.
"""

from typing import NamedTuple

from penstock.metadata.image.broker import BrokerImage
from penstock.model.identity import NodeId


class Sender(NamedTuple):
    """A node, and the number of its request; numbers grow within one broker epoch."""

    node_id: NodeId
    broker_epoch: int
    request_number: int


class MarkerSenders:
    """The latest request of each broker that the image knows, so that they cannot be many."""

    def __init__(self) -> None:
        self._latest: dict[NodeId, Sender] = {}

    def note(self, sender: Sender, registered: BrokerImage | None) -> None:
        """A request has come. It counts if the broker is registered in that epoch: an earlier one
        has ended, and of a later one this node knows nothing yet.
        """
        if registered is None or sender.broker_epoch != registered.epoch:
            return
        latest = self._latest.get(sender.node_id)
        if latest is None or latest < sender:
            self._latest[sender.node_id] = sender

    def is_latest(self, sender: Sender) -> bool:
        return self._latest.get(sender.node_id) == sender
