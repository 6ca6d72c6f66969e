"""Makes a cluster match a topology: looks what is there, plans, and carries the steps out."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic, first_refusal
from penstock.client.admin.configs import Change, Resource, alter_configs, describe_configs
from penstock.client.admin.topology import WantedTopic
from penstock.client.admin.topology_plan import (
    AddPartitions,
    CreateTopic,
    FoundTopic,
    SetSettings,
    Step,
    plan_topics,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode


async def apply_topology(
    cluster: Cluster,
    wanted: Mapping[str, WantedTopic],
    *,
    dry_run: bool = False,
    more_partitions: bool = False,
) -> list[Step]:
    """The steps that were needed; with `dry_run` none of them is done. Nothing is ever deleted.
    Topics with more partitions than are wanted are refused, unless `more_partitions` are allowed.
    """
    plan = await _plan(cluster, wanted, more_partitions=more_partitions)
    if dry_run:
        return plan
    done: list[Step] = []
    for step in plan:
        try:
            await _carry_out(cluster, step)
        except Refused as refused:
            if refused.code != ErrorCode.TOPIC_ALREADY_EXISTS or not isinstance(step, CreateTopic):
                raise
            # Made meanwhile, or before, and not known yet to the broker that was asked.
            await cluster.need([step.topic.name])
            late = {step.topic.name: step.topic}
            changes = await _plan(cluster, late, more_partitions=more_partitions)
            for change in changes:
                await _carry_out(cluster, change)
            done += changes
        else:
            done.append(step)
    return done


async def _plan(
    cluster: Cluster, wanted: Mapping[str, WantedTopic], *, more_partitions: bool
) -> list[Step]:
    found = await found_topics(cluster, wanted)
    return plan_topics(wanted, found, more_partitions=more_partitions)


async def found_topics(
    cluster: Cluster, wanted: Mapping[str, WantedTopic]
) -> dict[str, FoundTopic]:
    """Those of the wanted topics that are there."""
    view = await Admin(cluster).topics()
    there = [name for name in wanted if name in view.topics]
    configs = await describe_configs(cluster, (Resource(ResourceKind.TOPIC, n) for n in there))
    first_refusal(configs.values())
    found = {}
    for name in there:
        entries = configs[Resource(ResourceKind.TOPIC, name)]
        assert not isinstance(entries, Refused)
        partitions = view.topics[name].partitions
        found[name] = FoundTopic(
            partitions=len(partitions),
            replicas=max((len(partition.replicas) for partition in partitions), default=0),
            settings={e.name: e.value for e in entries if e.source is Source.TOPIC},
        )
    return found


async def _carry_out(cluster: Cluster, step: Step) -> None:
    """Raises if it is refused."""
    admin = Admin(cluster)
    results: Iterable[object]
    match step:
        case CreateTopic(topic=topic):
            new = NewTopic(
                name=topic.name,
                partitions=topic.partitions or BROKERS_DECIDE,
                replicas=topic.replicas or BROKERS_DECIDE,
                settings=topic.settings,
            )
            results = (await admin.create_topics([new])).values()
        case AddPartitions(name=name, count=count):
            results = (await admin.create_partitions({name: count})).values()
        case SetSettings(name=name, settings=settings):
            changes = [
                Change(name=setting, operation=Operation.SET, value=value)
                for setting, value in settings.items()
            ]
            resource = Resource(ResourceKind.TOPIC, name)
            results = (await alter_configs(cluster, {resource: changes})).values()
        case _:
            assert_never(step)
    first_refusal(results)
