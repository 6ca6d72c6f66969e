"""The topics of a capture, as they should be. Pure; `cdc/topology.toml` gives the reasons."""

from penstock.client.admin.topology import Guarantee, WantedTopic
from penstock.spark.pipelines.cdc.source import Source

COMPACTED = {"cleanup.policy": "compact"}
KEPT_FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1"}
# Readers have a week to see tombstones.
OF_TABLES = COMPACTED | {"delete.retention.ms": "604800000", "min.compaction.lag.ms": "3600000"}


def topics_of(source: Source, *, partitions: int) -> dict[str, WantedTopic]:
    """`partitions`: of each table's topic."""
    tables = {
        topic: WantedTopic(
            name=topic,
            key="primary key",
            guarantee=Guarantee.EXACTLY_ONCE,
            partitions=partitions,
            settings=OF_TABLES,
        )
        for topic in source.topics.values()
    }
    return tables | {
        source.positions: WantedTopic(
            name=source.positions,
            key="source",
            guarantee=Guarantee.EXACTLY_ONCE,
            partitions=1,
            settings=COMPACTED | {"segment.ms": "3600000"},
        ),
        source.events: WantedTopic(
            name=source.events,
            key="table",
            guarantee=Guarantee.EXACTLY_ONCE,
            partitions=1,
            settings=KEPT_FOREVER,
        ),
    }
