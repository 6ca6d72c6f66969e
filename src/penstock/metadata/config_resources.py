"""Which resources have a configuration, and which kinds of resource never have one here."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from penstock.metadata.image.image import ConfigResource, Image
from penstock.model.configs import ResourceKind

# Why a request about such a resource is refused.
UNSUPPORTED: Mapping[int, str] = MappingProxyType(
    {
        ResourceKind.BROKER_LOGGER: "BROKER_LOGGER is not supported: the log levels of a broker "
        "are fixed while it runs",
    }
)


def config_resources(
    image: Image, kinds: Collection[ResourceKind], *, listener: str
) -> Iterator[ConfigResource]:
    """Resources of these kinds: all topics, all brokers with this listener, and the groups and
    client metrics that settings were given to. The kinds come in Apache Kafka's order.
    """
    for kind in (ResourceKind.GROUP, ResourceKind.CLIENT_METRICS):
        if kind in kinds:
            yield from (resource for resource in image.configs if resource.kind == kind)
    if ResourceKind.BROKER in kinds:
        for node_id, broker in image.brokers.items():
            if broker.endpoint(listener) is not None:
                yield ConfigResource(ResourceKind.BROKER, str(node_id))
    if ResourceKind.TOPIC in kinds:
        for name in image.topics_by_name:
            yield ConfigResource(ResourceKind.TOPIC, name)
