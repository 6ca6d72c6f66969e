"""How partitions are laid out: how many brokers hold, who leads them, and which are too large."""

from penstock.doctor.finding import (
    Advice,
    Command,
    Finding,
    Mend,
    counted,
    fail,
    finding,
    unknown,
    warn,
)
from penstock.doctor.partition_counts import as_planned, below_plan, idle_members
from penstock.doctor.seen import ClusterSeen, Limits, Unseen
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.limit import MIB
from penstock.planning.given import ceil_div

NEAR_LIMIT = 0.8
IMBALANCE_MAX = 0.1  # as Kafka's leader.imbalance.per.broker.percentage
HOT_TIMES = 2  # the mean of the topic
HOT_BYTES_MIN = MIB  # smaller topics are nobody's trouble


def partitions(seen: ClusterSeen, limits: Limits) -> Finding:
    held: dict[NodeId, int] = dict.fromkeys(seen.brokers, 0)
    for topic in seen.topics.values():
        for one in topic.partitions:
            for node in one.replicas:
                held[node] = held.get(node, 0) + 1
    most = limits.replicas_per_broker_max
    faults = []
    for node, count in sorted(held.items()):
        reason = f"broker {node} holds {counted(count, 'replica')} of {most:,}"
        if count > most:
            faults.append(fail(reason, _fewer(seen, node, held, most)))
        elif count > most * NEAR_LIMIT:
            faults.append(warn(reason, _fewer(seen, node, held, most)))
    faults += idle_members(seen)
    passed = f"{counted(max(held.values(), default=0), 'replica')} a broker at most, of {most:,}"
    if limits.load is not None:
        faults += below_plan(seen, limits.load)
        passed += f"; {as_planned(seen, limits.load)}"
    return finding("partitions", faults, passed=passed)


def _fewer(seen: ClusterSeen, node: NodeId, held: dict[NodeId, int], most: int) -> Mend:
    """What is beyond its share goes to the others, where they have room; else more brokers."""
    room = int(most * NEAR_LIMIT)
    total, running = sum(held.values()), seen.running()
    share = ceil_div(total, max(1, len(running)))
    if share > room or node not in running:
        needed = max(ceil_div(total, max(1, room)), len(held) + 1)
        return Advice(text=f"run {needed} brokers or more, or delete topics that nobody uses")
    surplus = held[node] - share
    more = ceil_div(surplus, max(1, len(running) - 1))
    targets = [other for other in running if other != node and held[other] + more <= room]
    scopes = _movable(seen, node, targets, surplus)
    if not scopes:
        return Advice(
            text="move partitions to brokers with fewer: penstock partitions reassign FILE"
        )
    named = [word for scope in scopes for word in ("--topic", scope)]
    brokers = ",".join(map(str, targets))
    return Command(verb="partitions reassign", options=(*named, "--to-brokers", brokers, "--watch"))


def _movable(seen: ClusterSeen, node: NodeId, targets: list[NodeId], surplus: int) -> list[str]:
    """So many partitions whose replicas on this node can be on the targets instead, as scopes of a
    command; of the topics that have most of them here first. Empty if there are not enough.
    """
    by_topic: dict[str, list[int]] = {}
    for name, topic in seen.topics.items():
        for one in topic.partitions:
            others = [replica for replica in one.replicas if replica != node]
            if node in one.replicas and len(others) < len(targets) and {*others} <= {*targets}:
                by_topic.setdefault(name, []).append(one.index)
    scopes = []
    for name in sorted(by_topic, key=lambda name: (-len(by_topic[name]), name)):
        chosen = by_topic[name][:surplus]
        surplus -= len(chosen)
        if chosen:
            scopes.append(f"{name}:{','.join(map(str, chosen))}")
    return [] if surplus else scopes


def leader_balance(seen: ClusterSeen, limits: Limits) -> Finding:
    preferred: dict[NodeId, int] = {}
    elsewhere: dict[NodeId, int] = {}
    for topic in seen.topics.values():
        for one in topic.partitions:
            if not one.replicas:
                continue
            first = one.replicas[0]
            preferred[first] = preferred.get(first, 0) + 1
            if one.leader is not None and one.leader != first:
                elsewhere[first] = elsewhere.get(first, 0) + 1
    faults = []
    for node, count in sorted(elsewhere.items()):
        if count <= preferred[node] * IMBALANCE_MAX:
            continue
        reason = f"broker {node} leads {preferred[node] - count} of the {preferred[node]} it should"
        if node in seen.running():
            faults.append(warn(reason, Command(verb="partitions elect-leaders")))
        else:
            faults.append(warn(reason, Advice(text=f"start broker {node} again")))
    return finding("leader-balance", faults, passed="partitions are led by their preferred leaders")


def hot_partitions(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "hot-partitions"
    sizes: dict[TopicPartition, int] = {}
    for directories in seen.directories.values():
        for directory in () if isinstance(directories, Unseen) else directories:
            for replica in directory.replicas:
                place = replica.partition
                sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    reasons = [one.reason for one in seen.directories.values() if isinstance(one, Unseen)]
    if not sizes and reasons:
        return finding(check, [unknown(reasons[0])], passed="")
    faults = []
    for topic in seen.own_topics():
        held = [(TopicPartition(topic.name, one.index)) for one in topic.partitions]
        total = sum(sizes.get(place, 0) for place in held)
        if len(held) < 2 or total < HOT_BYTES_MIN:
            continue
        mean = total / len(held)
        for place in held:
            times = sizes.get(place, 0) / mean
            if times >= HOT_TIMES:
                advice = Advice(
                    text=f"another key, or more partitions of {topic.name}; to see which keys are"
                    " written most",
                    command=Command(verb="partitions hot"),
                )
                reason = f"{place} holds {times:.1f} times the mean of its topic"
                faults.append(warn(reason, advice))
    return finding(
        check, faults, passed=f"no partition holds {HOT_TIMES} times the mean of its topic"
    )
