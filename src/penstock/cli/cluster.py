"""`penstock cluster`: describe, quorum."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.admin import Admin, BrokerDescription, ClusterDescription
from penstock.client.admin.quorum import Quorum, QuorumMember, describe_quorum
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.model.identity import NodeId, id_text
from penstock.wire.api import ApiKey, VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    described: ClusterDescription
    features: Mapping[str, int]
    # Of each broker: by number of the API, or why they can't be told
    versions: Mapping[NodeId, Mapping[int, VersionRange] | ClientError]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Describe a cluster and its metadata quorum."""


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


@cluster.command()
@cluster_options
def quorum(bootstrap: str, as_json: bool) -> None:
    """Describe the metadata quorum: its leader, and how far each replica has come."""
    described = with_cluster(bootstrap, describe_quorum)
    if as_json:
        print_json(_quorum_value(described))
        return
    say(
        f"leader {described.leader_id}  epoch {described.epoch}  "
        f"high watermark {described.high_watermark}"
    )
    now_ms = time.time_ns() // 1_000_000
    print_table(
        ("node", "role", "log end", "lag", "last fetch", "last caught up"),
        (
            (
                member.node_id,
                _role(described, member, votes=votes),
                _or_dash(member.end_offset),
                _or_dash(member.lag),
                _ago(member.fetched_ms, now_ms),
                _ago(member.caught_up_ms, now_ms),
            )
            for votes, members in ((True, described.voters), (False, described.observers))
            for member in members
        ),
    )


def _role(described: Quorum, member: QuorumMember, *, votes: bool) -> str:
    if not votes:
        return "observer"
    return "leader" if member.node_id == described.leader_id else "follower"


def _ago(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else f"{max(0, now_ms - at_ms)} ms ago"


def _quorum_value(described: Quorum) -> dict[str, object]:
    return {
        "leader": described.leader_id,
        "epoch": described.epoch,
        "high_watermark": described.high_watermark,
        "voters": [_member_value(member) for member in described.voters],
        "observers": [_member_value(member) for member in described.observers],
    }


def _member_value(member: QuorumMember) -> dict[str, object]:
    return {
        "id": member.node_id,
        "directory_id": None if member.directory_id is None else id_text(member.directory_id),
        "log_end_offset": member.end_offset,
        "lag": member.lag,
        "last_fetch_ms": member.fetched_ms,
        "last_caught_up_ms": member.caught_up_ms,
    }


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
