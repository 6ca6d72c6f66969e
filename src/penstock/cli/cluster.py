"""`penstock cluster`: describe."""

from collections.abc import Mapping
from dataclasses import dataclass

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.admin import Admin, BrokerDescription, ClusterDescription
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId
from penstock.wire.api import ApiKey, VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    described: ClusterDescription
    features: Mapping[str, int]
    # Of each broker: by number of the API, or why they can't be told
    versions: Mapping[NodeId, Mapping[int, VersionRange] | ClientError]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Describe a cluster."""


@cluster.command()
@click.option("--versions", is_flag=True, help="Also which versions of each API brokers serve.")
@cluster_options
def describe(versions: bool, bootstrap: str, as_json: bool) -> None:
    """Describe a cluster: its id, controller, brokers and feature levels."""

    async def work(cluster: Cluster) -> ClusterReport:
        described = await Admin(cluster).describe_cluster()
        await cluster.refresh(())
        served = {
            broker.node_id: await _versions(cluster, broker.node_id)
            for broker in described.brokers
            if versions
        }
        return ClusterReport(
            described=described, features=dict(cluster.features.levels), versions=served
        )

    report = with_cluster(bootstrap, work)
    if as_json:
        print_json(_value(report))
    else:
        _show(report)


async def _versions(cluster: Cluster, node: NodeId) -> Mapping[int, VersionRange] | ClientError:
    try:
        return (await cluster.channel(node)).versions
    except ClientError as error:
        return error


def _show(report: ClusterReport) -> None:
    described = report.described
    say(f"cluster {described.cluster_id}  controller {_or_dash(described.controller)}")
    print_table(
        ("broker", "host", "port", "rack", "state"),
        (
            (broker.node_id, broker.host, broker.port, broker.rack, _state(broker))
            for broker in described.brokers
        ),
    )
    print_table(("feature", "level"), sorted(report.features.items()))
    for node, served in report.versions.items():
        if isinstance(served, ClientError):
            say(f"broker {node}: its versions are not known: {served}")
            continue
        print_table(
            ("api", "name", "from version", "to version"),
            ((key, _name(key), one.min, one.max) for key, one in sorted(served.items())),
            title=f"broker {node}",
        )


def _value(report: ClusterReport) -> dict[str, object]:
    described = report.described
    return {
        "cluster_id": described.cluster_id,
        "controller": described.controller,
        "brokers": [_broker_value(broker, report) for broker in described.brokers],
        "features": dict(sorted(report.features.items())),
    }


def _broker_value(broker: BrokerDescription, report: ClusterReport) -> dict[str, object]:
    value: dict[str, object] = {
        "id": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.fenced,
    }
    served = report.versions.get(broker.node_id)
    if isinstance(served, ClientError):
        value["versions"] = None
        value["error"] = str(served)
    elif served is not None:
        value["versions"] = [
            {"api": key, "name": _name(key), "min": one.min, "max": one.max}
            for key, one in sorted(served.items())
        ]
    return value


def _state(broker: BrokerDescription) -> str:
    return "fenced" if broker.fenced else "active"


def _name(key: int) -> str | None:
    """None for an API that is newer than this client."""
    try:
        return ApiKey(key).name
    except ValueError:
        return None


def _or_dash(value: object) -> object:
    return "-" if value is None else value
