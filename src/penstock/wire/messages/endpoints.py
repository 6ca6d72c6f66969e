"""Where nodes of a quorum listen, as several messages about the quorum say it.

In messages where a version lacks endpoints, the field that holds them is absent as a whole.
"""

from penstock.wire.definition import Struct, int32, string, uint16


class NamedEndpoint(Struct):
    """An endpoint of the node that the message is about, by the name of its listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class NodeEndpoint(Struct):
    """An endpoint of another node: the leader that a reply names."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()
