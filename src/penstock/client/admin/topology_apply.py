"""Makes a cluster match a topology: looks what is there, plans, and carries the steps out."""

from collections.abc import Iterable, Mapping, Sequence
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
    found = await found_topics(cluster, wanted)
    plan = plan_topics(wanted, found, more_partitions=more_partitions)
    if not dry_run:
        await carry_out(cluster, plan)
    return plan


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


async def carry_out(cluster: Cluster, plan: Sequence[Step]) -> None:
    """Does the steps one after the other; raises at the first that is refused."""
    admin = Admin(cluster)
    for step in plan:
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
