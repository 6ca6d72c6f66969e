"""`penstock cluster`: describe, quorum, features, log-dirs, and who belongs to it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import click

from penstock.cli.cluster_log_dirs import log_dirs
from penstock.cli.cluster_members import (
    add_controller,
    controllers_option,
    remove_controller,
    unregister,
    upgrade,
)
from penstock.cli.command_group import CommandGroup
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.cli.watch import show_view, watch_options
from penstock.client.admin.admin import Admin, BrokerDescription
from penstock.client.admin.features import ask_features
from penstock.client.admin.quorum import Controller, Quorum, QuorumMember, describe_quorum
from penstock.client.network.cluster import Cluster
from penstock.client.network.connection import Features
from penstock.client.network.errors import ClientError, Refused, UnsupportedByBroker
from penstock.model.identity import NodeId, id_text
from penstock.wire.api import ApiKey, VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    cluster_id: str | None
    active_controller: NodeId | None
    brokers: tuple[BrokerDescription, ...] | None  # None: controllers do not tell
    controllers: tuple[Controller, ...]  # as far as they are told
    features: Mapping[str, int]
    # Of each broker: by number of the API, or why they can't be told
    versions: Mapping[NodeId, Mapping[int, VersionRange] | ClientError]


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Describe a cluster, its metadata quorum and its log directories; change who belongs to it."""


for command in (log_dirs, unregister, add_controller, remove_controller, upgrade):
    cluster.add_command(command)


@cluster.command()
@click.option("--versions", is_flag=True, help="Also which versions of each API nodes serve.")
@controllers_option
@watch_options
@cluster_options
def describe(
    versions: bool,
    controllers: str | None,
    watch: bool,
    seconds: float,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Describe a cluster: its id, brokers, controllers and feature levels."""

    async def work(cluster: Cluster) -> ClusterReport:
        if controllers is None:
            report = await _as_brokers_tell(cluster)
        else:
            report = await _as_controllers_tell(cluster)
        if not versions:
            return report
        nodes = list(cluster.view.brokers)
        return replace(report, versions={node: await _versions(cluster, node) for node in nodes})

    def show(report: ClusterReport) -> None:
        if as_json:
            print_json(_value(report), in_line=watch)
        else:
            _show(report)

    every_seconds = seconds if watch else None
    show_view(
        controllers or bootstrap, work, show, every_seconds=every_seconds, redrawn=not as_json
    )


@cluster.command()
@controllers_option
@watch_options
@cluster_options
def quorum(
    controllers: str | None, watch: bool, seconds: float, bootstrap: str, as_json: bool
) -> None:
    """Describe the metadata quorum: its leader, and how far each replica has come."""

    def show(described: Quorum) -> None:
        if as_json:
            print_json(_quorum_value(described), in_line=watch)
        else:
            _show_quorum(described)

    show_view(
        controllers or bootstrap,
        partial(describe_quorum, at_controllers=controllers is not None),
        show,
        every_seconds=seconds if watch else None,
        redrawn=not as_json,
    )


@cluster.command()
@controllers_option
@watch_options
@cluster_options
def features(
    controllers: str | None, watch: bool, seconds: float, bootstrap: str, as_json: bool
) -> None:
    """List the features: the level that the cluster uses, and those that a node supports."""

    async def work(cluster: Cluster) -> Features:
        if controllers is not None:
            await cluster.refresh_controllers()
        return await ask_features(cluster)

    def show(told: Features) -> None:
        if as_json:
            print_json(_features_value(told), in_line=watch)
        else:
            _show_features(told)

    show_view(
        controllers or bootstrap,
        work,
        show,
        every_seconds=seconds if watch else None,
        redrawn=not as_json,
    )


def _features_value(told: Features) -> dict[str, object]:
    return {
        "epoch": told.epoch,
        "features": [_feature_value(told, name) for name in _feature_names(told)],
    }


def _show_features(told: Features) -> None:
    print_table(
        ("feature", "level", "lowest supported", "highest supported"),
        (
            tuple(map(_or_dash, _feature_value(told, name).values()))
            for name in _feature_names(told)
        ),
    )


def _feature_names(told: Features) -> list[str]:
    return sorted({*told.levels, *told.supported})


def _show_quorum(described: Quorum) -> None:
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


def _feature_value(told: Features, name: str) -> dict[str, object]:
    supported = told.supported.get(name)
    return {
        "name": name,
        "level": told.levels.get(name, 0),
        "supported_min": None if supported is None else supported.min,
        "supported_max": None if supported is None else supported.max,
    }


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


async def _as_brokers_tell(cluster: Cluster) -> ClusterReport:
    described = await Admin(cluster).describe_cluster()
    await cluster.refresh(())
    active = described.controller
    controllers: tuple[Controller, ...] = ()
    try:
        quorum = await describe_quorum(cluster)
        active, controllers = quorum.leader_id, quorum.controllers
    except UnsupportedByBroker:
        pass  # before 3.3: what the brokers call the controller is it
    except Refused:
        active = None  # there is none just now
    return ClusterReport(
        cluster_id=described.cluster_id,
        active_controller=active,
        brokers=described.brokers,
        controllers=controllers,
        features=(await ask_features(cluster)).levels,
        versions={},
    )


async def _as_controllers_tell(cluster: Cluster) -> ClusterReport:
    view = await cluster.refresh_controllers()
    return ClusterReport(
        cluster_id=view.cluster_id,
        active_controller=view.controller,
        brokers=None,
        controllers=tuple(
            Controller(node_id=one.node_id, host=one.address.host, port=one.address.port)
            for one in view.brokers.values()
        ),
        features=(await ask_features(cluster)).levels,
        versions={},
    )


async def _versions(cluster: Cluster, node: NodeId) -> Mapping[int, VersionRange] | ClientError:
    try:
        return (await cluster.channel(node)).versions
    except ClientError as error:
        return error


def _show(report: ClusterReport) -> None:
    say(f"cluster {report.cluster_id}  active controller {_or_dash(report.active_controller)}")
    if report.brokers is not None:
        print_table(
            ("broker", "host", "port", "rack", "state"),
            (
                (broker.node_id, broker.host, broker.port, broker.rack, _state(broker))
                for broker in report.brokers
            ),
        )
    if report.controllers:
        print_table(
            ("controller", "host", "port", "role"),
            (
                (
                    one.node_id,
                    one.host,
                    one.port,
                    "active" if one.node_id == report.active_controller else "standby",
                )
                for one in report.controllers
            ),
        )
    print_table(("feature", "level"), sorted(report.features.items()))
    kind = "controller" if report.brokers is None else "broker"
    for node, served in report.versions.items():
        if isinstance(served, ClientError):
            say(f"{kind} {node}: its versions are not known: {served}")
            continue
        print_table(
            ("api", "name", "from version", "to version"),
            ((key, _name(key), one.min, one.max) for key, one in sorted(served.items())),
            title=f"{kind} {node}",
        )


def _value(report: ClusterReport) -> dict[str, object]:
    brokers = report.brokers
    return {
        "cluster_id": report.cluster_id,
        "controller": report.active_controller,
        "brokers": None
        if brokers is None
        else [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "fenced": broker.fenced,
                **_versions_value(broker.node_id, report),
            }
            for broker in brokers
        ],
        "controllers": [
            {
                "id": one.node_id,
                "host": one.host,
                "port": one.port,
                "active": one.node_id == report.active_controller,
                **(_versions_value(one.node_id, report) if brokers is None else {}),
            }
            for one in report.controllers
        ],
        "features": dict(sorted(report.features.items())),
    }


def _versions_value(node: NodeId, report: ClusterReport) -> dict[str, object]:
    served = report.versions.get(node)
    if served is None:
        return {}
    if isinstance(served, ClientError):
        return {"versions": None, "error": str(served)}
    return {
        "versions": [
            {"api": key, "name": _name(key), "min": one.min, "max": one.max}
            for key, one in sorted(served.items())
        ]
    }


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
