"""Whether acknowledged records outlive the loss of a broker: replicas, and how many must have one.

Topics of the system count too: offsets and transactions are lost with them.
"""

from penstock.client.network.routing import TopicView
from penstock.doctor.finding import (
    Advice,
    Command,
    Fault,
    Finding,
    Mend,
    counted,
    fail,
    finding,
    unknown,
    warn,
)
from penstock.doctor.seen import ClusterSeen, Limits, Unseen
from penstock.planning.partitions import REPLICATION_FACTOR_DEFAULT

MIN_INSYNC = "min.insync.replicas"
MIN_INSYNC_GOOD = 2


def replicas_of(topic: TopicView) -> int:
    """Of the partition that has the fewest."""
    return min((len(one.replicas) for one in topic.partitions), default=0)


def replication(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    brokers = {*seen.brokers, *seen.down}
    wanted = min(REPLICATION_FACTOR_DEFAULT, len(brokers))
    if len(brokers) == 1:
        advice = "run three nodes or more: docs/cluster.md"
        faults.append(fail("there is 1 broker: its disk is the only copy", Advice(text=advice)))
    for name, topic in sorted(seen.topics.items()):
        found = replicas_of(topic)
        if found >= wanted:
            continue
        mend = _more_replicas(name, wanted, seen)
        reason = f"{name} has {counted(found, 'replica')}"
        faults.append(fail(reason, mend) if found == 1 else warn(reason, mend))
    return finding(
        "replication", faults, passed=f"every topic has {counted(wanted, 'replica')} or more"
    )


def _more_replicas(name: str, wanted: int, seen: ClusterSeen) -> Mend:
    running = seen.running()
    if len(running) < wanted:
        down = ", ".join(map(str, seen.down))
        return Advice(text=f"start broker {down} again, and then add replicas")
    brokers = ",".join(map(str, running))
    options = ("--topic", name, "--to-brokers", brokers, "--replicas", str(wanted), "--watch")
    return Command(verb="partitions reassign", options=options)


def min_insync(seen: ClusterSeen, limits: Limits) -> Finding:
    check = "min-insync"
    if isinstance(seen.topic_settings, Unseen):
        return finding(check, [unknown(seen.topic_settings.reason)], passed="")
    faults = []
    for name, topic in sorted(seen.topics.items()):
        needed = number(seen.topic_settings.get(name, {}).get(MIN_INSYNC))
        if needed is not None:
            fault = _min_insync_fault(name, replicas_of(topic), needed)
            faults += [] if fault is None else [fault]
    return finding(check, faults, passed=f"{MIN_INSYNC} fits the replicas of every topic")


def _min_insync_fault(name: str, replicas: int, needed: int) -> Fault | None:
    good = min(MIN_INSYNC_GOOD, max(1, replicas - 1))
    mend = Command(verb="topics alter", names=(name,), options=("--set", f"{MIN_INSYNC}={good}"))
    about = f"{name}: {MIN_INSYNC} is {needed}"
    if needed > replicas:
        return fail(f"{about} of {counted(replicas, 'replica')}, no write can succeed", mend)
    if replicas < REPLICATION_FACTOR_DEFAULT:
        return None  # there is nothing better than what `replication` asks for
    if needed < MIN_INSYNC_GOOD:
        return fail(f"{about}, a leader alone may ack", mend)
    if needed == replicas:
        return warn(f"{about} of {replicas}, one broker down stops writes", mend)
    return None


def number(text: str | None) -> int | None:
    """A setting's value as a number; None where it is not told, or is none."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
