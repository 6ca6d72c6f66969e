"""Real nodes and their clients on simulated machines, on one loop.

    cluster = SimCluster(loop, seed)
    node = cluster.add_node("node-1", {"node.id": "1", "listeners": "PLAINTEXT://node-1:9092"})
    group.start(node.keep_alive(), name="node-1")
    async with cluster.client("client-1", [Address(host="node-1", port=9092)]) as client: ...

A machine is there once it has been named; names are addresses. Each has a disk, a clock and streams
of randomness of its own, all drawn from the seed.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode
from penstock.node.config import NodeConfig
from penstock.sim.entropy import stream
from penstock.sim.host import Host, draw_host
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.loop import SimLoop
from penstock.sim.sim_node import DIRECTORY, START_MS_MAX, LifeWatch, SimNode
from penstock.sim.trace import Trace
from penstock.sim.wire import Wire
from penstock.world.ports import Address

CLIENT_RULES = ClusterRules(
    connect_ms_max=3_000, request_ms_max=10_000, backoff_ms=50, topic_ms_max=2_000
)
DOWN_MS = (10,)  # plans of faults say how long a node is down
GIVEN_UP_MS = 1_000  # what restarts a node that ended by itself waits a while


class Unwatched:
    """Lives that nobody keeps a history of; see `LifeWatch`."""

    def life_begins(self) -> None:
        pass

    def life_ends(self, broker: OpenNode | None) -> None:
        pass

    def power_lost(self) -> None:
        pass


UNWATCHED = Unwatched()


class SimCluster:
    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop = loop
        self.seed = seed
        self.trace = Trace(loop)
        self.wire = Wire(loop, stream(seed, "network"), self.trace)
        self.hosts: dict[str, Host] = {}
        self.nodes: dict[str, SimNode] = {}  # by machine

    def host(self, name: str) -> Host:
        """The machine of that name."""
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = draw_host(
                name, seed=self.seed, loop=self.loop, wire=self.wire, trace=self.trace
            )
        return found

    def add_node(
        self,
        name: str,
        config: NodeConfig | Mapping[str, str],
        *,
        watch: LifeWatch = UNWATCHED,
        start_ms_max: int = START_MS_MAX,
    ) -> SimNode:
        """A node on the machine of that name, from its configuration or from the properties that a
        server.properties holds. It runs while its `keep_alive` does.
        """
        assert name not in self.nodes, name
        if not isinstance(config, NodeConfig):
            config = node_config(config)
        node = self.nodes[name] = SimNode(
            self.host(name),
            config,
            trace=self.trace,
            watch=watch,
            label=name,
            down_ms=DOWN_MS,
            given_up_ms=GIVEN_UP_MS,
            start_ms_max=start_ms_max,
        )
        return node

    @asynccontextmanager
    async def client(
        self,
        name: str,
        bootstrap: Iterable[Address],
        *,
        kill_switch: KillSwitch | None = None,
        rules: ClusterRules = CLIENT_RULES,
    ) -> AsyncIterator[Cluster]:
        """A client on the machine of that name, run by whoever asks: for set-up and judgement. One
        that is to be paused or crashed with its machine is the `main` of a SimProcess.
        """
        world = self.host(name).world(kill_switch or KillSwitch())
        async with Cluster(world.network, world.clock, list(bootstrap), rules=rules) as cluster:
            yield cluster

    def check(self) -> None:
        """The invariants of all nodes as they are now."""
        for node in self.nodes.values():
            node.check()


def node_config(properties: Mapping[str, str]) -> NodeConfig:
    return NodeConfig(
        node_id=NodeId(int(properties["node.id"])),
        data_directory=DIRECTORY,
        settings=parse_broker(dict(properties)),
    )
