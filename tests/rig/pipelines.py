"""Topics and input of a ready pipeline, on a node of a test."""

from collections.abc import Iterable

from penstock.cli.connect import with_cluster
from penstock.cli.pipeline_generate import write_events
from penstock.client.cluster import Cluster
from penstock.client.topology import read_topology
from penstock.client.topology_apply import apply_topology
from penstock.spark.pipelines.catalogue import PIPELINES
from penstock.spark.pipelines.generated import Event


def make_topics(bootstrap: str, pipeline: str) -> None:
    """As its topology file says."""
    wanted = read_topology(PIPELINES[pipeline].topology)

    async def work(cluster: Cluster) -> None:
        await apply_topology(cluster, wanted)

    with_cluster(bootstrap, work)


def produce(bootstrap: str, events: Iterable[Event]) -> None:
    some = list(events)
    write_events(bootstrap, iter(some), count=len(some), rate=None)
