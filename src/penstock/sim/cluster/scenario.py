"""What one seed of a cluster asks for: settings, clients and faults, drawn before anything runs."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from penstock.sim.cluster.coordination_plan import GroupPlan, draw_applications, draw_groups
from penstock.sim.cluster.layout import machines
from penstock.sim.entropy import stream
from penstock.sim.fault_plan import FaultLimits, FaultPlan, HostFaultKind, PlannedFault, draw_plan
from penstock.sim.transacting.plan import Application, Style, TransactionPlan

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
# Where every record has several copies, one of them may be damaged, refused or gone.
REPLICATED_LIMITS = replace(
    LIMITS,
    kinds=(
        *KINDS,
        HostFaultKind.FULL_DISK,
        HostFaultKind.FLIPPED_BIT,
        HostFaultKind.WIPED_DIRECTORY,
    ),
)
# In some seeds links between two nodes are cut besides: drawn from a stream of its own.
CUT_LINKS = FaultLimits(
    kinds=(HostFaultKind.CUT_LINK,),
    faults_min=1,
    faults_max=3,
    first_ms=2_000,
    last_ms=60_000,
    length_ms_max=14_000,
)
STRIKE_KINDS = (HostFaultKind.KILL, HostFaultKind.STOP, HostFaultKind.POWER_LOSS)
ORDERS = "orders"
PAYMENTS = "payments"  # written in transactions
REPLICAS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScenario:
    seed: int
    nodes: int
    node_settings: dict[str, str]
    replicas: int  # of each partition; topics of admins may have fewer
    acks_synced: bool  # acks wait for syncs, not in topics of one replica alone
    voters_in_log: bool  # with the ids of their directories: `kraft.version` 1
    orders_partitions: int
    admins: int
    producers: int
    transactors: int  # clients that write in transactions
    committers: int  # clients that commit offsets
    aimed: float  # how many of the faults strike the active controller, whoever that is
    power_lost_at_end: bool  # before the last judgement all machines lose power at once
    plan: FaultPlan
    strike_kinds: tuple[HostFaultKind, ...] = STRIKE_KINDS  # for a leader that stays too long
    applications: TransactionPlan | None = None
    groups: tuple[GroupPlan, ...] = ()
    movers: int = 0  # clients that move partitions; one at most
    pipelines: int = 0  # idempotent producers with several requests under way

    @property
    def in_sync_min(self) -> int:
        """`min.insync.replicas`: one of them may be away."""
        return max(1, self.replicas - 1)

    @property
    def settings_of_lasting_topics(self) -> dict[str, str]:
        """Of those that nobody deletes. Their segments are small, so that there are many."""
        segment_bytes = "3000" if self.replicas == 1 else "1000"
        return {**self.ack_settings(self.replicas), "internal.segment.bytes": segment_bytes}

    def ack_settings(self, replicas: int) -> dict[str, str]:
        """Of a topic with so many replicas. What has a single one is to outlast a power loss."""
        return {"penstock.ack.fsync": "true" if self.acks_synced or replicas == 1 else "false"}


def fault_kinds(*, nodes: int, replicas: int | None = None) -> tuple[HostFaultKind, ...]:
    """Those that a cluster of this size may have, each once."""
    replicas = min(REPLICAS, nodes) if replicas is None else replicas
    kinds = set((LIMITS if replicas == 1 else REPLICATED_LIMITS).kinds)
    if nodes > 1:
        kinds.add(HostFaultKind.CUT_LINK)
    return tuple(kind for kind in HostFaultKind if kind in kinds)


def draw(
    seed: int,
    *,
    nodes: int,
    replicas: int | None = None,
    kinds: Collection[HostFaultKind] | None = None,
    plain: bool = False,
) -> ClusterScenario:
    """With as many replicas of each partition as are asked for; by default three, as far as there
    are nodes for them. With these kinds of fault alone, if any are given. A plain one has
    neither applications nor groups nor cut links.
    """
    replicas = min(REPLICAS, nodes) if replicas is None else replicas
    assert 1 <= replicas <= nodes, (replicas, nodes)
    chance = stream(seed, "scenario of a cluster")
    scenario = ClusterScenario(
        seed=seed,
        nodes=nodes,
        node_settings=_node_settings(chance, nodes=nodes),
        replicas=replicas,
        acks_synced=True,
        voters_in_log=nodes > 1 and chance.random() < 0.5,
        orders_partitions=chance.choice((nodes, 2 * nodes)),
        admins=chance.choice((1, 2, 2)),
        producers=chance.choice((1, 1, 2)),
        transactors=chance.choice((0, 0, 1)),
        committers=chance.choice((0, 0, 1)),
        aimed=chance.choice((0.3, 0.6, 0.9)),
        power_lost_at_end=chance.random() < 0.3,
        plan=_plan(seed, nodes, LIMITS, kinds if replicas == 1 else None),
    )
    if replicas > 1:
        scenario = _replicated(scenario, stream(seed, "replication"), kinds)
    if replicas > 1 and not plain:
        scenario = _coordinated(scenario, stream(seed, "coordination"))
        if kinds is None:
            scenario = _with_cut_links(scenario, stream(seed, "cut links"))
    return scenario if kinds is None else _without_others(scenario, kinds)


def _without_others(scenario: ClusterScenario, kinds: Collection[HostFaultKind]) -> ClusterScenario:
    """What is not in the plan, and yet a fault, if it is not of these kinds."""
    return replace(
        scenario,
        power_lost_at_end=scenario.power_lost_at_end and HostFaultKind.POWER_LOSS in kinds,
        strike_kinds=tuple(kind for kind in scenario.strike_kinds if kind in kinds),
    )


def _replicated(
    scenario: ClusterScenario, chance: Random, kinds: Collection[HostFaultKind] | None
) -> ClusterScenario:
    """What is drawn where partitions have followers."""
    acks_synced = chance.random() < 0.5
    replicas, in_sync_min = str(scenario.replicas), str(scenario.in_sync_min)
    settings = {
        **scenario.node_settings,
        "penstock.ack.fsync": str(acks_synced).lower(),
        "metadata.log.dir": "/metadata",  # records alone are wiped
        "min.insync.replicas": in_sync_min,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_min,
    }
    if chance.random() < 0.5:
        # In-sync sets shrink while a fault lasts, and not only because a broker is fenced.
        settings["replica.lag.time.max.ms"] = chance.choice(("2500", "5000"))
    limits = replace(REPLICATED_LIMITS, together=0.4 if acks_synced else LIMITS.together)
    if scenario.nodes > 2 and chance.random() < 0.5:
        limits = replace(limits, disabled_max=2)
    plan = _plan(scenario.seed, scenario.nodes, limits, kinds)
    if not acks_synced and chance.random() < 0.8:
        plan = replace(plan, faults=tuple(map(_of_one_machine, plan.faults)))
    return replace(scenario, node_settings=settings, acks_synced=acks_synced, plan=plan)


def _with_cut_links(scenario: ClusterScenario, chance: Random) -> ClusterScenario:
    if chance.random() >= 0.25:
        return scenario
    cut = draw_plan(chance, tuple(machines(scenario.nodes).values()), CUT_LINKS)
    faults = sorted((*scenario.plan.faults, *cut.faults), key=lambda one: (one.start_ms, one.hosts))
    return replace(scenario, plan=replace(scenario.plan, faults=tuple(faults)))


def _coordinated(scenario: ClusterScenario, chance: Random) -> ClusterScenario:
    """Some seeds have applications in transactions, some members of groups."""
    if chance.random() < 0.4:
        scenario = with_applications(scenario, chance)
    if chance.random() < 0.4:
        scenario = with_groups(scenario, chance)
    return replace(scenario, pipelines=chance.choice((0, 0, 1)))


def for_coordinators(scenario: ClusterScenario) -> ClusterScenario:
    """The same faults for clients of coordinators alone."""
    chance = stream(scenario.seed, "coordinators alone")
    scenario = with_groups(with_applications(scenario, chance), chance)
    return replace(scenario, admins=0, producers=0, transactors=0, committers=3, pipelines=1)


def for_generation_1(scenario: ClusterScenario) -> ClusterScenario:
    """Applications that keep their epoch from one transaction to the next: what comes late for the
    one can be taken for the other.
    """
    scenario = for_coordinators(scenario)
    assert scenario.applications is not None
    applications = tuple(
        Application(
            transactional_id=f"app-{number}",
            style=Style.GENERATION_1,
            instances=1,
            reads=False,
            timeout_ms=5_000,
            request_ms_max=30_000,
            stall_chance=0.0,
            pause_ms=100,
            write_pause_ms=300,
        )
        for number in range(3)
    )
    plan = replace(scenario.applications, applications=applications)
    return replace(scenario, applications=plan, groups=())


def for_transactors(scenario: ClusterScenario) -> ClusterScenario:
    """The same faults for transactional producers alone."""
    return replace(
        scenario,
        admins=0,
        producers=0,
        transactors=2,
        committers=0,
        applications=None,
        groups=(),
        pipelines=0,
    )


def with_moves(scenario: ClusterScenario) -> ClusterScenario:
    """The same, and partitions move. A replica that is copied must not be the only one that lacks
    something: no bits are flipped, and no directories wiped.
    """
    assert scenario.nodes > scenario.replicas, "somewhere to move to"
    spared = (HostFaultKind.FLIPPED_BIT, HostFaultKind.WIPED_DIRECTORY)
    faults = tuple(fault for fault in scenario.plan.faults if fault.kind not in spared)
    return replace(scenario, movers=1, plan=replace(scenario.plan, faults=faults))


def with_applications(scenario: ClusterScenario, chance: Random) -> ClusterScenario:
    plan = draw_applications(chance, nodes=scenario.nodes, acks_last=scenario.acks_synced)
    settings = {**scenario.node_settings, "transaction.two.phase.commit.enable": "true"}
    return replace(scenario, applications=plan, node_settings=settings)


def with_groups(scenario: ClusterScenario, chance: Random) -> ClusterScenario:
    settings = {**scenario.node_settings, "group.initial.rebalance.delay.ms": "300"}
    return replace(scenario, groups=draw_groups(chance, topic=ORDERS), node_settings=settings)


def _plan(
    seed: int, nodes: int, limits: FaultLimits, kinds: Collection[HostFaultKind] | None
) -> FaultPlan:
    if kinds is not None:
        known = (*limits.kinds, HostFaultKind.CUT_LINK) if nodes > 1 else limits.kinds
        chosen = tuple(kind for kind in known if kind in kinds)
        limits = replace(limits, kinds=chosen, kinds_drawn=1.0)
    return draw_plan(stream(seed, "plan of faults"), tuple(machines(nodes).values()), limits)


def _of_one_machine(fault: PlannedFault) -> PlannedFault:
    """When all machines lose power, records may be gone whose acks did not wait for syncs."""
    if fault.kind is HostFaultKind.POWER_LOSS:
        return replace(fault, hosts=(fault.hosts[int(fault.amount * len(fault.hosts))],))
    return fault


def _node_settings(chance: Random, *, nodes: int) -> dict[str, str]:
    settings = {
        "penstock.ack.fsync": "true",  # for the topics of coordinators too
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    if chance.random() < 0.3:
        # Snapshots again and again, and a log that is trimmed: those who were away need them.
        settings["metadata.log.max.record.bytes.between.snapshots"] = "3000"
    if nodes > 1 and chance.random() < 0.3:
        settings["broker.session.timeout.ms"] = "3000"
        settings["broker.heartbeat.interval.ms"] = "1000"
    return settings
