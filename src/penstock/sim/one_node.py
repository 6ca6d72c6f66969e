"""What the simulation of one node adds: an address, and what its crashes take from a history."""

from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode
from penstock.node.config import NodeConfig
from penstock.sim.history import History
from penstock.sim.sim_node import DIRECTORY
from penstock.world.ports import Address

ADDRESS = Address(host="broker", port=9092)


def node_config(settings: dict[str, str]) -> NodeConfig:
    return NodeConfig(
        node_id=NodeId(1),
        data_directory=DIRECTORY,
        settings=parse_broker({"listeners": f"PLAINTEXT://{ADDRESS}", **settings}),
    )


class HistoryWatch:
    """See `LifeWatch`."""

    def __init__(self, history: History, *, lasting: frozenset[str]) -> None:
        self._history = history
        self._lasting = lasting  # topics whose acks hold through a power loss

    def life_begins(self) -> None:
        self._history.restarted()

    def life_ends(self, broker: OpenNode | None) -> None:
        """Notes how far each log claimed to last."""
        if broker is None:
            return
        for partition, log in broker.logs.items():
            if partition.topic != METADATA_TOPIC:
                known = self._history.of(partition)
                known.synced_offset = max(known.synced_offset, log.recovery_point)

    def power_lost(self) -> None:
        self._history.power_lost(lasting=self._lasting)
