"""A replicated cluster as one broker that is killed and started: each time a node that matters.

`kill` takes one of the nodes by its role at that moment, as `Role` has them; `start` starts it
again a little later. So whatever was written for one node that is killed runs on a cluster. With a
network some of the nodes are not killed but cut off, in the ways that `Cut` has, mostly for longer
than a session. `schedule` makes an order of kills and cuts; without one every strike is a
kill.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import Enum

from penstock.model.error import ErrorCode
from penstock.wire.messages.list_groups import ListGroupsRequest
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from rig.cluster_questions import active_controller, until
from rig.dialogue import Dialogue
from rig.failover.cluster import BRISK_SESSIONS, ReplicatedCluster
from rig.failover.namespaces import CLIENTS
from rig.failover.network_ordeal import Cut, Network, cut_off
from rig.failover.questions import held_back_partitions, partition_states

DOWN_SECONDS_MAX = 1.5
SESSION_SECONDS = int(BRISK_SESSIONS["broker.session.timeout.ms"]) / 1000
# How long a node is cut off, in sessions of brokers: mostly so long that it is fenced, and now and
# then so short that it is not.
CUT_SESSIONS, SHORT_CUT_SESSIONS = (1.2, 2.2), (0.5, 0.9)
SHORT_CUT_SHARE = 0.25
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


class Role(Enum):
    LEADER = "leader of a partition"
    GROUPS = "coordinator of groups"
    TRANSACTIONS = "coordinator of transactions"
    CONTROLLER = "active controller"


Strike = Role | Cut  # a kill of a node in this role, or a cut of one in any role


def schedule(seed: int, *, kills: int, cuts: int) -> list[Strike]:
    """In a random order; kills have all roles in turn, and cuts are of all kinds in turn."""
    roles, kinds = list(Role), list(Cut)
    strikes: list[Strike] = [roles[number % len(roles)] for number in range(kills)]
    strikes += [kinds[number % len(kinds)] for number in range(cuts)]
    random.Random(seed).shuffle(strikes)
    return strikes


def cut_sessions(dice: random.Random) -> float:
    """How long the next cut lasts."""
    is_short = dice.random() < SHORT_CUT_SHARE
    return dice.uniform(*(SHORT_CUT_SESSIONS if is_short else CUT_SESSIONS))


class KilledNode:
    """Of a cluster that runs; it is a `KillableBroker`. `struck` counts kills by role, and cuts."""

    def __init__(
        self,
        cluster: ReplicatedCluster,
        *,
        topics: Sequence[str],
        seed: int,
        network: Network | None = None,
        strikes: Sequence[Strike] | None = None,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        assert network is not None or not any(isinstance(one, Cut) for one in strikes or ())
        self.struck: Counter[Strike] = Counter()
        self.faults: list[str] = []  # nodes that ended by themselves
        self._cluster = cluster
        self._topics = topics
        self._network = network
        self._random = random.Random(seed)
        self._strikes: Iterator[Strike] = self._kills() if strikes is None else iter(strikes)
        self._told = told
        self._strike: Strike | None = None
        self._down = 0
        self._cut_seconds = 0.0

    @property
    def running(self) -> bool:
        return any(node.running for node in self._cluster.nodes.values())

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def kill(self) -> None:
        """The next strike."""
        assert self._strike is None
        strike = next(self._strikes)
        role = strike if isinstance(strike, Role) else self._random.choice(self._roles)
        self._down = self._in_role(role)
        if isinstance(strike, Cut):
            assert self._network is not None
            others = [one for one in self._cluster.nodes if one != self._down]
            cut_off(self._network, strike, self._down, others, clients=CLIENTS)
            self._cut_seconds = cut_sessions(self._random) * SESSION_SECONDS
            lasts = f"for {self._cut_seconds:.1f} s"
            self._told(f"node {self._down}, {role.value}, is cut off {lasts}: {strike.value}")
        else:
            self._cluster.nodes[self._down].end(signal.SIGKILL)
            self._told(f"node {self._down}, {role.value}, is killed")
        self._strike = strike
        self.struck[strike] += 1

    def start(self) -> None:
        """Returns when the strike is over and all nodes run; they may not be in sync yet."""
        assert self._strike is not None
        if isinstance(self._strike, Cut):
            assert self._network is not None
            time.sleep(self._cut_seconds)
            self._network.heal()
        else:
            time.sleep(self._random.uniform(0, DOWN_SECONDS_MAX))
            self._cluster.start(self._down)
        self._strike = None
        for number, node in self._cluster.nodes.items():
            if not node.running:
                self.faults.append(f"node {number} ended by itself: {node.logged()[-1000:]}")
                self._cluster.start(number)

    @property
    def _roles(self) -> list[Role]:
        return [role for role in Role if role is not Role.LEADER or self._topics]

    def _kills(self) -> Iterator[Strike]:
        while True:
            yield self._random.choice(self._roles)

    def _in_role(self, role: Role) -> int:
        """A node that has it now; before there are groups or transactions, any node."""
        addresses = self._cluster.addresses
        match role:
            case Role.CONTROLLER:
                return active_controller(addresses.values())
            case Role.LEADER:
                return self._leader(self._random.choice(self._topics))
            case Role.GROUPS:
                found = [one for one, address in addresses.items() if groups_at(address)]
            case Role.TRANSACTIONS:
                found = [one for one, address in addresses.items() if transactions_at(address)]
        return self._random.choice(found or sorted(addresses))

    def _leader(self, topic: str) -> int:
        found: list[int] = []

        def is_led() -> bool:
            states = partition_states(next(iter(self._cluster.addresses.values())), topic)
            leaders = [one.leader for one in states.values() if one.leader is not None]
            found[:] = [self._random.choice(leaders)] if leaders else []
            return bool(leaders)

        until(f"a leader of {topic}", is_led)
        return found[0]


def groups_at(address: str) -> list[str]:
    """The groups that a node coordinates; none while it does not answer."""
    try:
        with closing(Dialogue(address, "")) as dialogue:
            reply = dialogue.exchange(ListGroupsRequest(), version=4)
    except OSError:
        return []
    return [one.group_id for one in reply.groups]


def transactions_at(address: str) -> list[str]:
    """The transactional ids that a node coordinates; none while it does not answer."""
    try:
        return list(transaction_states(address))
    except OSError:
        return []


def transaction_states(address: str) -> Mapping[str, str]:
    """Of the transactional ids that a node coordinates."""
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(ListTransactionsRequest(), version=0)
    if reply.error_code != ErrorCode.NONE:
        raise OSError(f"{address}: {ErrorCode(reply.error_code).name}")
    return {one.transactional_id: one.transaction_state for one in reply.transaction_states}


def open_transactions(cluster: ReplicatedCluster) -> dict[str, str]:
    """The states of transactional ids whose transactions have not ended, by id.

    Also the partitions, internal ones among them, that hold back readers of committed records: in
    them a transaction is open, whether its coordinator still knows of it or not.
    """
    states = {
        transactional_id: state
        for address in cluster.addresses.values()
        for transactional_id, state in transaction_states(address).items()
        if state not in ENDED
    }
    return {**states, **held_back_partitions(cluster)}
