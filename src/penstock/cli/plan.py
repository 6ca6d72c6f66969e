"""`penstock plan`: partitions, disk, metadata, cluster."""

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.plan_options import (
    COUNT,
    brokers_option,
    factor_of,
    fill_option,
    partition_options,
    replication_factor_option,
    resolve,
    retention_option,
    throughput_option,
)
from penstock.cli.plan_show import (
    cluster_rows,
    cluster_value,
    disk_rows,
    disk_value,
    metadata_rows,
    metadata_value,
    partition_rows,
    partition_value,
    show_plan,
)
from penstock.planning.cluster import GROUPS_DEFAULT, plan_cluster
from penstock.planning.disk import plan_disk
from penstock.planning.metadata import plan_metadata
from penstock.planning.partitions import plan_partitions


@click.group(cls=CommandGroup)
def plan() -> None:
    """Plan partitions, disk, memory and metadata of a cluster from its load.

    MB/S are millions of bytes a second. docs/planning.md has the formulae.
    """


@plan.command()
@partition_options
@json_option
def partitions(
    throughput_mb: float,
    partition_mb: float | None,
    consumers: int,
    consumer_mb: float | None,
    brokers: int | None,
    replication_factor: int | None,
    measured: bool,
    topic_scopes: tuple[str, ...],
    seconds: float,
    bootstrap: str,
    as_json: bool,
) -> None:
    """How many partitions a topic needs, and what decides it."""
    given = resolve(
        partition_mb=partition_mb,
        brokers=brokers,
        replication_factor=replication_factor,
        wants_measure=measured,
        scopes=topic_scopes,
        seconds=seconds,
        bootstrap=bootstrap,
    )
    planned = plan_partitions(
        throughput_mb=throughput_mb,
        partition_mb=given.partition_mb,
        consumers=consumers,
        consumer_mb=consumer_mb,
        brokers=given.brokers,
        replication_factor=given.replication_factor,
    )
    show_plan(
        partition_rows(planned),
        partition_value(planned, given.measured),
        spread=planned.spread,
        as_json=as_json,
    )


@plan.command()
@throughput_option
@retention_option
@brokers_option
@replication_factor_option
@click.option(
    "--partitions",
    type=COUNT,
    metavar="N",
    show_default="one for each broker",
    help="How many there are: each keeps up to a segment more.",
)
@fill_option
@json_option
def disk(
    throughput_mb: float,
    retention_seconds: int,
    brokers: int,
    replication_factor: int | None,
    partitions: int | None,
    fill_percent: int,
    as_json: bool,
) -> None:
    """How much disk each broker needs for what is kept."""
    planned = plan_disk(
        throughput_mb=throughput_mb,
        retention_seconds=retention_seconds,
        brokers=brokers,
        replication_factor=factor_of(replication_factor, brokers=brokers),
        partitions=partitions,
        fill_percent=fill_percent,
    )
    show_plan(disk_rows(planned), disk_value(planned), spread=None, as_json=as_json)


@plan.command()
@click.option(
    "--partitions", type=COUNT, required=True, metavar="N", help="Of all topics of the cluster."
)
@brokers_option
@replication_factor_option
@json_option
def metadata(partitions: int, brokers: int, replication_factor: int | None, as_json: bool) -> None:
    """How large the metadata of partitions are, on disk and in memory."""
    planned = plan_metadata(
        partitions=partitions,
        brokers=brokers,
        replication_factor=factor_of(replication_factor, brokers=brokers),
    )
    show_plan(
        metadata_rows(planned), metadata_value(planned), spread=planned.spread, as_json=as_json
    )


@plan.command()
@partition_options
@click.option(
    "--groups",
    type=click.IntRange(min=0),
    default=GROUPS_DEFAULT,
    show_default=True,
    metavar="N",
    help="How many groups read everything.",
)
@retention_option
@fill_option
@json_option
def cluster(
    throughput_mb: float,
    partition_mb: float | None,
    consumers: int,
    consumer_mb: float | None,
    brokers: int | None,
    replication_factor: int | None,
    measured: bool,
    topic_scopes: tuple[str, ...],
    seconds: float,
    bootstrap: str,
    groups: int,
    retention_seconds: int,
    fill_percent: int,
    as_json: bool,
) -> None:
    """All of it: partitions, traffic, disk, memory and metadata."""
    given = resolve(
        partition_mb=partition_mb,
        brokers=brokers,
        replication_factor=replication_factor,
        wants_measure=measured,
        scopes=topic_scopes,
        seconds=seconds,
        bootstrap=bootstrap,
    )
    planned = plan_cluster(
        throughput_mb=throughput_mb,
        partition_mb=given.partition_mb,
        consumers=consumers,
        consumer_mb=consumer_mb,
        groups=groups,
        brokers=given.brokers,
        replication_factor=given.replication_factor,
        retention_seconds=retention_seconds,
        fill_percent=fill_percent,
    )
    show_plan(
        cluster_rows(planned),
        cluster_value(planned, given.measured),
        spread=planned.partitions.spread,
        as_json=as_json,
    )
