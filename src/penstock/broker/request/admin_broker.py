"""Which broker clients are told to send requests for the controller to."""

from collections.abc import Sequence

from penstock.model.identity import NodeId

NO_BROKER = -1


def admin_broker(node_id: NodeId, listed: Sequence[int]) -> int:
    """Any broker takes requests for the controller and passes them on: this one, unless the client
    is not told of it, because it is fenced or has no such listener. `listed` are the unfenced ones
    that the client is told of.
    """
    if node_id in listed:
        return node_id
    return listed[0] if listed else NO_BROKER
