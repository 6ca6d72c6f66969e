"""What is away now: replicas out of sync, too few of them, partitions without a leader."""

from collections.abc import Iterator

from penstock.client.network.routing import PartitionView
from penstock.doctor.durability import MIN_INSYNC, number
from penstock.doctor.finding import Advice, Command, Finding, fail, finding, unknown
from penstock.doctor.seen import ClusterSeen, Limits, Unseen
from penstock.model.identity import NodeId, TopicPartition


def under_replicated(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    for place, one in _partitions(seen):
        away = [node for node in one.replicas if node not in one.in_sync]
        if away:
            reason = f"{place} is in sync on {len(one.in_sync)} of {len(one.replicas)}"
            faults.append(fail(reason, _start(seen, away)))
    return finding("under-replicated", faults, passed="all replicas are in sync")


def under_min_insync(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "under-min-insync"
    if isinstance(seen.topic_settings, Unseen):
        return finding(check, [unknown(seen.topic_settings.reason)], passed="")
    faults = []
    for place, one in _partitions(seen):
        needed = number(seen.topic_settings.get(place.topic, {}).get(MIN_INSYNC))
        # `offline` tells of those without a leader, `min-insync` of those without the replicas.
        if needed is None or one.leader is None or len(one.replicas) < needed:
            continue
        if len(one.in_sync) >= needed:
            continue
        away = [node for node in one.replicas if node not in one.in_sync]
        reason = f"{place}: {len(one.in_sync)} in sync, {needed} needed to write"
        faults.append(fail(reason, _start(seen, away)))
    return finding(check, faults, passed="every partition takes writes with acks=all")


def offline(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    for place, one in _partitions(seen):
        if one.leader is None or one.leader not in seen.brokers:
            faults.append(fail(f"{place} has no leader", _revive(seen, place, one)))
    return finding("offline", faults, passed="every partition has a leader")


def _partitions(seen: ClusterSeen) -> Iterator[tuple[TopicPartition, PartitionView]]:
    for name, topic in sorted(seen.topics.items()):
        for one in topic.partitions:
            yield TopicPartition(name, one.index), one


def _start(seen: ClusterSeen, away: list[NodeId]) -> Advice:
    """What brings these replicas back, or others in their place."""
    down = sorted(set(away).difference(seen.running()))
    if not down:
        nodes = ", ".join(map(str, sorted(away)))
        return Advice(text=f"see why the replicas on {nodes} do not catch up: the log of that node")
    ids = ",".join(map(str, down))
    drain = Command(verb="partitions reassign", options=("--drain", ids, "--watch"))
    held = [one for _, one in _partitions(seen) if not set(down).isdisjoint(one.replicas)]
    gone = f"{_start_again(down)}; if gone for good"
    if max(len(one.replicas) for one in held) > len(seen.running()):
        gone += ", start another broker in its place, and then"
    return Advice(text=gone, command=drain)


def _revive(seen: ClusterSeen, place: TopicPartition, one: PartitionView) -> Advice:
    """Replicas that are in sync, or were last, are not there: without them records are lost."""
    running = seen.running()
    down = sorted(set(one.replicas).difference(running))
    if not down:
        nodes = ", ".join(map(str, sorted(one.replicas)))
        return Advice(text=f"see why the replicas on {nodes} do not lead: the log of that node")
    if len(down) < len(one.replicas):
        lost = "the last records are lost"
        command = Command(
            verb="partitions elect-leaders",
            options=("--unclean",),
            names=(f"{place.topic}:{place.partition}",),
        )
    else:
        lost = "its records are lost"
        command = Command(verb="topics delete", names=(place.topic,))
    return Advice(text=f"{_start_again(down)}; if gone for good, {lost}", command=command)


def _start_again(down: list[NodeId]) -> str:
    noun = "broker" if len(down) == 1 else "brokers"
    return f"start {noun} {', '.join(map(str, down))} again"
