"""How many partitions topics have, against the members that read them and the load that they are
planned for.
"""

from penstock.doctor.finding import Advice, Command, Fault, counted, unknown, warn
from penstock.doctor.seen import ClusterSeen, Load, Unseen
from penstock.model.topic_name import holds_dead_letters
from penstock.planning.partitions import Need, PartitionPlan, plan_partitions


def idle_members(seen: ClusterSeen) -> list[Fault]:
    """A partition is read by one member of a group: members beyond their number do nothing."""
    if isinstance(seen.groups, Unseen):
        return []
    faults = []
    for group in seen.groups:
        for name in sorted({topic for topics in group.member_topics for topic in topics}):
            readers = sum(name in topics for topics in group.member_topics)
            topic = seen.topics.get(name)
            # Members of several topics may read from the others.
            alone = all(topics == (name,) for topics in group.member_topics if name in topics)
            if topic is not None and alone and readers > len(topic.partitions):
                reason = (
                    f"{name} has {counted(len(topic.partitions), 'partition')} for"
                    f" {readers} members of {group.group_id}"
                )
                advice = more_partitions(seen, name, readers, instead="run fewer members")
                faults.append(warn(reason, advice))
    return faults


def below_plan(seen: ClusterSeen, load: Load) -> list[Fault]:
    """Topics of fewer partitions than their load needs, as `penstock plan partitions` has it."""
    brokers = {*seen.brokers, *seen.down}
    plan = plan_partitions(
        throughput_mb=load.throughput_mb,
        partition_mb=load.partition_mb,
        consumers=load.consumers,
        brokers=max(1, len(brokers)),
        replication_factor=1,
    )
    faults = []
    for name in _planned(seen, load):
        topic = seen.topics.get(name)
        if topic is None:
            faults.append(unknown(f"there is no topic {name}"))
        elif len(topic.partitions) < plan.partitions:
            has = counted(len(topic.partitions), "partition")
            advice = more_partitions(
                seen,
                name,
                plan.partitions,
                instead="measure what one takes by `penstock plan partitions --measure`",
            )
            faults.append(warn(f"{name} has {has}: {_need(plan, len(brokers))}", advice))
    return faults


def as_planned(seen: ClusterSeen, load: Load) -> str:
    """What is said where no topic has too few."""
    planned = _planned(seen, load)
    if not planned:
        return "there is no topic to carry the load"
    topics = planned[0] if len(planned) == 1 else f"each of {len(planned):,} topics"
    return f"{topics} has those that its load needs"


def _planned(seen: ClusterSeen, load: Load) -> list[str]:
    if load.topics:
        return sorted({*load.topics})
    return [topic.name for topic in seen.own_topics() if not holds_dead_letters(topic.name)]


def _need(plan: PartitionPlan, brokers: int) -> str:
    match plan.decided_by:
        case Need.THROUGHPUT:
            each = f"of {plan.partition_mb:g} MB/s each"
            return f"{plan.throughput_mb:g} MB/s need {plan.partitions:,}, {each}"
        case Need.CONSUMERS:
            return f"{counted(plan.consumers, 'consumer')} need {plan.partitions:,}"
        case Need.BROKERS:
            return f"{counted(brokers, 'broker')} need {plan.partitions:,}, to lead one each"


def more_partitions(seen: ClusterSeen, topic: str, count: int, *, instead: str) -> Advice:
    """The command that adds them has a price: it moves keys to other partitions."""
    settings = {} if isinstance(seen.topic_settings, Unseen) else seen.topic_settings
    policy = settings.get(topic, {}).get("cleanup.policy")
    if policy is not None and "compact" in policy:
        return Advice(
            text=f"{instead}: {topic} is compacted, and of keys that go to another partition the"
            " former one would keep old records"
        )
    unless = "it is not compacted, and " if policy is None else ""
    return Advice(
        text=f"{instead}; if {unless}no reader relies on the order of keys, many of which then go"
        " to another partition",
        command=Command(verb="topics alter", names=(topic,), options=("--partitions", str(count))),
    )
