"""A replicated cluster as one broker that is killed and started: each time a node that matters.

`kill` takes one of the nodes, by what it leads at that moment: a partition of a topic, of the
groups' or of the transactions' internal topic, or the metadata. `start` starts it again a little
later. So whatever was written for one node that is killed runs on a cluster. With a network, some
of the nodes are not killed but cut off, in one direction or both, for about a session's length.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing

from penstock.model.error import ErrorCode
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from rig.cluster_questions import active_controller, until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, ReplicatedCluster
from rig.failover.network_ordeal import Network
from rig.failover.questions import partition_states

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
CONTROLLER = "the active controller"
DOWN_SECONDS_MAX = 1.5
CUT_SESSIONS_MAX = 2.0  # how long one is cut off at most, in sessions of brokers
SESSION_SECONDS = int(BRISK_SESSIONS["broker.session.timeout.ms"]) / 1000
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class KilledNode:
    """Of a cluster that runs; it is a `KillableBroker`. `struck` counts what the killed led."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        *,
        topics: Sequence[str],
        seed: int,
        network: Network | None = None,
        cut_share: float = 0.0,  # of the strikes, how many are cuts
    ) -> None:
        self.struck: Counter[str] = Counter()
        self.cuts = 0
        self._cluster = cluster
        self._network = network
        self._cut_share = cut_share
        self._is_cut = False
        self._led = (*topics, GROUPS, TRANSACTIONS, CONTROLLER)
        self._random = random.Random(seed)
        self._down: int | None = None

    @property
    def running(self) -> bool:
        return any(node.running for node in self._cluster.nodes.values())

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def kill(self) -> None:
        assert self._down is None
        led = self._random.choice(self._led)
        self._down = self._leader(led)
        self.struck[led] += 1
        self._is_cut = self._network is not None and self._random.random() < self._cut_share
        if self._is_cut:
            self._cut(self._down)
        else:
            self._cluster.nodes[self._down].end(signal.SIGKILL)

    def start(self) -> None:
        assert self._down is not None
        if self._is_cut:
            assert self._network is not None
            time.sleep(self._random.uniform(0, CUT_SESSIONS_MAX * SESSION_SECONDS))
            self._network.heal()
        else:
            time.sleep(self._random.uniform(0, DOWN_SECONDS_MAX))
            self._cluster.start(self._down)
        self._down = None

    def _cut(self, node: int) -> None:
        """From the other nodes, and not from clients."""
        assert self._network is not None
        self.cuts += 1
        outwards, inwards = self._random.choice([(True, True), (True, False), (False, True)])
        for other in self._cluster.nodes:
            if other != node and outwards:
                self._network.cut(node, other)
            if other != node and inwards:
                self._network.cut(other, node)

    def _leader(self, led: str) -> int:
        if led == CONTROLLER:
            return active_controller(self._cluster.addresses.values())
        found: list[int] = []

        def is_led() -> bool:
            states = partition_states(next(iter(self._cluster.addresses.values())), led)
            leaders = [one.leader for one in states.values() if one.leader is not None]
            found[:] = [self._random.choice(leaders)] if leaders else []
            return bool(leaders)

        until(f"a leader of {led}", is_led)
        return found[0]


def open_transactions(cluster: ReplicatedCluster) -> dict[str, str]:
    """The states of the transactional ids whose transactions have not ended, by id."""
    found: dict[str, str] = {}
    for address in cluster.addresses.values():
        with closing(Dialogue(address, "")) as dialogue:
            reply = dialogue.exchange(ListTransactionsRequest(), version=0)
        if reply.error_code != ErrorCode.NONE:
            raise OSError(f"{address}: {ErrorCode(reply.error_code).name}")
        for one in reply.transaction_states:
            if one.transaction_state not in ENDED:
                found[one.transactional_id] = one.transaction_state
    return found
