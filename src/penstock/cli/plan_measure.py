"""`--measure`: what a partition of a running cluster takes, by the public protocol alone.

Two looks at the ends and sizes of logs, as `penstock partitions hot` takes them. The busiest
partition counts: it shows what one partition takes there at least. It takes more if producers
would send more, so the figure is one of capacity only while the cluster is under full load.
"""

from collections.abc import Sequence

import click

from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import partitions_in
from penstock.cli.show import say
from penstock.client.admin.partition_rates import PartitionRate, measure_rates
from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.planning.given import MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    partition: TopicPartition
    mb: float  # a second
    seconds: float
    brokers: int


def measure(bootstrap: str, *, scopes: Sequence[str], seconds: float) -> Measured:
    """Of the partitions that scopes name; without any, of all topics but Kafka's internal ones."""

    async def work(cluster: Cluster) -> Measured:
        view = await cluster.refresh_all()
        if scopes:
            meant = set(partitions_in(view, scopes))
        else:
            meant = {
                TopicPartition(topic.name, one.index)
                for topic in view.topics.values()
                if not topic.internal
                for one in topic.partitions
            }
        say(f"measuring for {seconds:g} s", err=True)
        rates = await measure_rates(cluster, seconds=seconds)
        rate = _busiest([one for one in rates if one.partition in meant], seconds=seconds)
        return Measured(
            partition=rate.partition,
            mb=rate.in_bytes / MB,
            seconds=seconds,
            brokers=len(cluster.view.brokers),
        )

    measured = with_cluster(bootstrap, work)
    say(
        f"the busiest partition, {measured.partition}, took {measured.mb:.3g} MB/s: it may take"
        " more where it is not under full load",
        err=True,
    )
    return measured


def _busiest(rates: Sequence[PartitionRate], *, seconds: float) -> PartitionRate:
    found = max(rates, key=lambda rate: rate.in_bytes, default=None)
    if found is not None and found.in_bytes > 0:
        return found
    if any(rate.records for rate in rates):
        raise click.ClickException(
            "no broker tells how large logs are: DescribeLogDirs needs the right to describe the"
            " cluster"
        )
    raise click.ClickException(
        f"nothing was written in {seconds:g} s: measure while producers write, such as"
        " `penstock perf produce`"
    )
