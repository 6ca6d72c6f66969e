"""Who this node is, its time, how it is with its cluster, and how late its event loop is.

The loop's lag is how much later a timer runs than it was asked for: so long everything else waits,
too. It is the one thing that is measured while nobody asks, ten times a second.
"""

import asyncio
from typing import Final

from penstock.broker.controller.local_controller import LocalController
from penstock.metrics.family import Family, Kind, Source, Steps, gauge
from penstock.metrics.histogram import Histogram
from penstock.model.identity import NodeId
from penstock.world.ports import Clock

INFO = gauge(
    "penstock_node_info",
    "Always 1; its labels say which node this is.",
    "node_id",
    "cluster_id",
    "roles",
    "version",
)
TIME = gauge("penstock_node_time_seconds", "What the node's clock shows, in seconds since 1970.")
STATE = gauge(
    "kafka_server_kafkaserver_brokerstate",
    "1: the broker starts; 2: it is registered and fenced; 3: it serves; 6: it is stopping.",
)
LAG = Family(
    name="penstock_event_loop_lag_seconds",
    kind=Kind.HISTOGRAM,
    help="How much later than asked for a timer of the node's event loop ran.",
)
LAG_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
PERIOD_S: Final = 0.1
STARTING, FENCED, RUNNING, STOPPING = 1, 2, 3, 6


def info_metrics(
    *, node_id: NodeId, cluster_id: str, roles: frozenset[str], version: str
) -> Source:
    def samples() -> Steps:
        yield INFO.sample(1, str(node_id), cluster_id, ",".join(sorted(roles)), version)

    return Source((INFO,), samples)


def time_metrics(clock: Clock) -> Source:
    """By which `penstock doctor` compares the clocks of machines."""

    def samples() -> Steps:
        yield TIME.sample(clock.now_ms() / 1000)

    return Source((TIME,), samples)


def broker_state_metrics(local: LocalController, node_id: NodeId) -> Source:
    def samples() -> Steps:
        broker = local.image.brokers.get(node_id)
        if broker is None:
            state = STARTING
        elif broker.in_controlled_shutdown:
            state = STOPPING
        else:
            state = FENCED if broker.fenced else RUNNING
        yield STATE.sample(state)

    return Source((STATE,), samples)


class LoopLag:
    def __init__(self) -> None:
        self._histogram = Histogram(LAG, LAG_BOUNDS)

    @property
    def source(self) -> Source:
        return Source((LAG,), self._histogram.samples)

    async def keep(self) -> None:
        """Measures until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self._histogram.note(max(loop.time() - due, 0.0))
