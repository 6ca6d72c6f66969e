"""The topics that a sink writes to. One that does not exist is created by the brokers, as for any
producer, where their `auto.create.topics.enable` is true; else it is refused.

A connection of its own asks for the creation: it would also create whatever else it asks about, and
the decision topic must have its own settings.
"""

from collections.abc import Iterable

from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.client.network.routing import ClusterView
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.spark.connection import connect
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.errors import MissingTopic

AUTO_CREATE = "auto.create.topics.enable"
CREATE_MS_MAX = 15_000


async def need_topics(
    cluster: Cluster, connection: ConnectionOptions, topics: Iterable[str]
) -> ClusterView:
    """A view that has these topics; MissingTopic for one that does not exist and is not created."""
    needed = list(topics)
    try:
        return await cluster.need(needed, wait_ms=0)
    except Refused as refused:
        if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    creates = await _brokers_create(cluster)
    try:
        if not creates:
            return await cluster.need(needed)  # it may just have been created
        async with connect(connection, create_topics=True) as creating:
            await creating.need(needed, wait_ms=CREATE_MS_MAX)
        return await cluster.need(needed, wait_ms=CREATE_MS_MAX)
    except Refused as refused:
        if refused.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        why = (
            f"the brokers have not created it within {CREATE_MS_MAX // 1000} s"
            if creates
            else f"the brokers do not create topics ({AUTO_CREATE}=false)"
        )
        raise MissingTopic(
            f"topic {refused.about} does not exist and {why}: create it before it is written to"
        ) from None


async def need_output_topic(connection: ConnectionOptions, topic: str) -> None:
    """On the driver, for a sink that has nothing else to ask the brokers."""
    async with connect(connection) as cluster:
        await need_topics(cluster, connection, [topic])


async def _brokers_create(cluster: Cluster) -> bool:
    """Whether the brokers create topics; also where a client is not allowed to know."""
    node = min(cluster.view.brokers)
    resource = Resource(ResourceKind.BROKER, str(node))
    entries = (await describe_configs(cluster, [resource]))[resource]
    if isinstance(entries, Refused):
        return True
    return all(entry.value != "false" for entry in entries if entry.name == AUTO_CREATE)
