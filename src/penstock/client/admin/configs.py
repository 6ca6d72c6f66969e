"""Settings of topics, brokers and groups, as the cluster has them: read, and changed one by one.

A broker answers for its own settings, so questions about a broker go to that broker and all others
to anyone. Changes are incremental (KIP-339): what is not named stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
from penstock.model.configs import Operation, ResourceKind, Source
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Resource(NamedTuple):
    """What has settings. The name of a broker is its id; an empty one stands for all brokers."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name or '(all)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    value: str | None  # None: sensitive, or not set
    source: Source
    read_only: bool
    sensitive: bool
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    name: str
    operation: Operation
    value: str | None = None


async def describe_configs(
    cluster: Cluster,
    resources: Iterable[Resource],
    *,
    names: Sequence[str] | None = None,
    documentation: bool = False,
) -> dict[Resource, list[Entry] | Refused]:
    """All settings of each, or those of these names."""
    found: dict[Resource, list[Entry] | Refused] = {}
    for node, part in _by_node(resources).items():
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configuration_keys=None if names is None else list(names),
                )
                for kind, name in part
            ],
            include_documentation=documentation,
        )
        if node is None:
            reply = await cluster.ask_any(request, DescribeConfigsResponse)
        else:
            await _know(cluster, node)
            reply = await cluster.ask(node, request, DescribeConfigsResponse)
        for told in reply.results:
            resource = Resource(ResourceKind(told.resource_type), told.resource_name)
            code = error_code(told.error_code)
            found[resource] = (
                [_entry(entry) for entry in told.configs]
                if code == ErrorCode.NONE
                else Refused(code, str(resource), told.error_message)
            )
    return found


async def alter_configs(
    cluster: Cluster,
    changes: Mapping[Resource, Sequence[Change]],
    *,
    validate_only: bool = False,
) -> dict[Resource, Refused | None]:
    """All changes of a resource are made, or none."""
    found: dict[Resource, Refused | None] = {}
    for node, part in _by_node(changes).items():
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.kind,
                    resource_name=resource.name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=change.value,
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in part
            ],
            validate_only=validate_only,
        )
        if node is None:
            reply = await cluster.ask_any(request, IncrementalAlterConfigsResponse)
        else:
            await _know(cluster, node)
            reply = await cluster.ask(node, request, IncrementalAlterConfigsResponse)
        for told in reply.responses:
            resource = Resource(ResourceKind(told.resource_type), told.resource_name)
            code = error_code(told.error_code)
            found[resource] = (
                None if code == ErrorCode.NONE else Refused(code, str(resource), told.error_message)
            )
    return found


def _by_node(resources: Iterable[Resource]) -> dict[NodeId | None, list[Resource]]:
    """Whom to ask for what; None for anyone."""
    by_node: dict[NodeId | None, list[Resource]] = {}
    for resource in resources:
        own = resource.kind is ResourceKind.BROKER and resource.name.isdigit()
        by_node.setdefault(NodeId(int(resource.name)) if own else None, []).append(resource)
    return by_node


async def _know(cluster: Cluster, node: NodeId) -> None:
    if node not in cluster.view.brokers:
        await cluster.refresh()


def _entry(told: DescribeConfigsResourceResult) -> Entry:
    try:
        source = Source(told.config_source)
    except ValueError:
        source = Source.UNKNOWN  # of a newer broker
    return Entry(
        name=told.name,
        value=told.value,
        source=source,
        read_only=told.read_only,
        sensitive=told.is_sensitive,
        documentation=told.documentation,
    )
