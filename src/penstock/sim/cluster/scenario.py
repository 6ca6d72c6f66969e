"""What one seed of a cluster asks for: settings, clients and faults, drawn before anything runs."""

from dataclasses import dataclass
from random import Random

from penstock.sim.cluster.layout import machines
from penstock.sim.entropy import stream
from penstock.sim.fault_plan import FaultLimits, FaultPlan, HostFaultKind, draw_plan

KINDS = (
    HostFaultKind.KILL,
    HostFaultKind.KILL,
    HostFaultKind.POWER_LOSS,
    HostFaultKind.KILL_IN_A_CALL,
    HostFaultKind.POWER_LOSS_IN_A_CALL,
    HostFaultKind.STOP,
    HostFaultKind.PAUSE,
    HostFaultKind.PAUSE,
    HostFaultKind.PARTITION,
    HostFaultKind.ONE_WAY,
    HostFaultKind.RESET,
    HostFaultKind.HALF_OPEN,
    HostFaultKind.SLOW_LINK,
    HostFaultKind.SLOW_DISK,
    HostFaultKind.CLOCK_JUMP,
)
LIMITS = FaultLimits(
    kinds=KINDS, faults_min=4, faults_max=10, first_ms=2_000, last_ms=60_000, length_ms_max=14_000
)
ORDERS = "orders"
PAYMENTS = "payments"  # written in transactions
REPLICAS = 3
LASTING = {"penstock.ack.fsync": "true"}  # an ack holds through a power loss


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScenario:
    seed: int
    nodes: int
    node_settings: dict[str, str]
    replicas: int  # of each partition; topics of admins may have fewer
    voters_in_log: bool  # with the ids of their directories: `kraft.version` 1
    orders_partitions: int
    admins: int
    producers: int
    transactors: int  # clients that write in transactions
    committers: int  # clients that commit offsets
    aimed: float  # how many of the faults strike the active controller, whoever that is
    power_lost_at_end: bool  # before the last judgement all machines lose power at once
    plan: FaultPlan


def draw(seed: int, *, nodes: int, replicas: int | None = None) -> ClusterScenario:
    """With as many replicas of each partition as are asked for; by default three, as far as there
    are nodes for them.
    """
    replicas = min(REPLICAS, nodes) if replicas is None else replicas
    assert 1 <= replicas <= nodes, (replicas, nodes)
    chance = stream(seed, "scenario of a cluster")
    return ClusterScenario(
        seed=seed,
        nodes=nodes,
        node_settings=_node_settings(chance, nodes=nodes, replicas=replicas),
        replicas=replicas,
        voters_in_log=nodes > 1 and chance.random() < 0.5,
        orders_partitions=chance.choice((nodes, 2 * nodes)),
        admins=chance.choice((1, 2, 2)),
        producers=chance.choice((1, 1, 2)),
        transactors=chance.choice((0, 0, 1)),
        committers=chance.choice((0, 0, 1)),
        aimed=chance.choice((0.3, 0.6, 0.9)),
        power_lost_at_end=chance.random() < 0.3,
        plan=draw_plan(stream(seed, "plan of faults"), tuple(machines(nodes).values()), LIMITS),
    )


def in_sync_min(replicas: int) -> str:
    """`min.insync.replicas` of a topic with so many replicas: one of them may be away."""
    return str(max(1, replicas - 1))


def _node_settings(chance: Random, *, nodes: int, replicas: int) -> dict[str, str]:
    settings = {
        "penstock.ack.fsync": "true",  # for the topics of coordinators too
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync_min(replicas),
    }
    if replicas > 1:
        settings["min.insync.replicas"] = in_sync_min(replicas)
    if chance.random() < 0.3:
        # Snapshots again and again, and a log that is trimmed: those who were away need them.
        settings["metadata.log.max.record.bytes.between.snapshots"] = "3000"
    if nodes > 1 and chance.random() < 0.3:
        settings["broker.session.timeout.ms"] = "3000"
        settings["broker.heartbeat.interval.ms"] = "1000"
    return settings
