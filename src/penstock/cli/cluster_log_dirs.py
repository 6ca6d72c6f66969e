"""`penstock cluster log-dirs`: what brokers store where, and how much room is left."""

from collections.abc import Mapping

import click

from penstock.cli.groups_scope import parse_scope, topics_option
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table
from penstock.cli.watch import show_view, watch_options
from penstock.client.admin.admin import Admin, LogDirectory, ReplicaSize
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused, Unreachable
from penstock.model.identity import NodeId, TopicPartition

Told = Mapping[NodeId, list[LogDirectory] | ClientError]
Meant = Mapping[tuple[NodeId, str], list[ReplicaSize]]


@click.command("log-dirs")
@click.option("--broker", "brokers", type=int, multiple=True, metavar="ID", help="Repeatable.")
@topics_option
@click.option("--partitions", "replicas", is_flag=True, help="Also each replica, largest first.")
@watch_options
@cluster_options
def log_dirs(
    brokers: tuple[int, ...],
    topic_scopes: tuple[str, ...],
    replicas: bool,
    watch: bool,
    seconds: float,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show the log directories of brokers: their replicas, bytes, and what is left on the disk."""
    scopes = [parse_scope(text) for text in topic_scopes]

    def is_meant(place: TopicPartition) -> bool:
        return not scopes or any(
            place.topic == topic and (indexes is None or place.partition in indexes)
            for topic, indexes in scopes
        )

    async def work(cluster: Cluster) -> Told:
        known = sorted((await cluster.refresh()).brokers)
        for node in brokers:
            if node not in known:
                raise Unreachable(f"no broker {node} is known in the cluster")
        admin = Admin(cluster)
        found: dict[NodeId, list[LogDirectory] | ClientError] = {}
        for node in [NodeId(node) for node in brokers] or known:
            try:
                found.update(await admin.log_directories([node]))
            except ClientError as error:
                found[node] = error
        return found

    def show(told: Told) -> None:
        meant = {
            (node, directory.path): sorted(
                (one for one in directory.replicas if is_meant(one.partition)),
                key=lambda one: (-one.size_bytes, one.partition),
            )
            for node, directories in told.items()
            if not isinstance(directories, ClientError)
            for directory in directories
        }
        if as_json:
            print_json([_value(node, found, meant) for node, found in told.items()], in_line=watch)
        else:
            _show(told, meant, replicas=replicas)

    every_seconds = seconds if watch else None
    show_view(bootstrap, work, show, every_seconds=every_seconds, redrawn=not as_json)


def _show(told: Told, meant: Meant, *, replicas: bool) -> None:
    print_table(
        ("broker", "directory", "state", "replicas", "bytes", "disk bytes", "free bytes"),
        (row for node, found in told.items() for row in _rows(node, found, meant)),
    )
    if replicas:
        print_table(
            ("broker", "directory", "topic", "partition", "bytes", "offset lag", "future"),
            (
                (
                    node,
                    path,
                    *one.partition,
                    one.size_bytes,
                    one.offset_lag,
                    "yes" if one.is_future else "no",
                )
                for (node, path), found in meant.items()
                for one in found
            ),
        )


def _rows(
    node: NodeId, found: list[LogDirectory] | ClientError, meant: Meant
) -> list[tuple[object, ...]]:
    if isinstance(found, ClientError):
        return [(node, None, _said(found), None, None, None, None)]
    return [
        (
            node,
            one.path,
            "online" if one.error is None else _said(one.error),
            len(meant[node, one.path]),
            sum(replica.size_bytes for replica in meant[node, one.path]),
            one.total_bytes,
            one.usable_bytes,
        )
        for one in found
    ]


def _said(error: ClientError) -> str:
    return error.code.name if isinstance(error, Refused) else str(error)


def _value(
    node: NodeId, found: list[LogDirectory] | ClientError, meant: Meant
) -> dict[str, object]:
    if isinstance(found, ClientError):
        return {"broker": node, "error": _said(found), "directories": []}
    return {
        "broker": node,
        "error": None,
        "directories": [
            {
                "path": one.path,
                "error": None if one.error is None else _said(one.error),
                "total_bytes": one.total_bytes,
                "usable_bytes": one.usable_bytes,
                "replicas": [
                    {
                        "topic": replica.partition.topic,
                        "partition": replica.partition.partition,
                        "size_bytes": replica.size_bytes,
                        "offset_lag": replica.offset_lag,
                        "future": replica.is_future,
                    }
                    for replica in meant[node, one.path]
                ],
            }
            for one in found
        ],
    }
