"""What an operator does about partitions that cannot elect a leader by themselves."""

from collections.abc import Sequence

from penstock.client.network.cluster import Cluster
from penstock.model.identity import TopicPartition
from penstock.wire.messages.elect_leaders import (
    ElectedTopicPartitions,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

UNCLEAN = 1
TIMEOUT_MS = 5_000


async def elect_uncleanly(cluster: Cluster, places: Sequence[TopicPartition]) -> None:
    """As `kafka-leader-election --election-type unclean` does: whoever lives may lead."""
    asked: dict[str, list[int]] = {}
    for place in places:
        asked.setdefault(place.topic, []).append(place.partition)
    request = ElectLeadersRequest(
        election_type=UNCLEAN,
        topic_partitions=[
            ElectedTopicPartitions(topic=topic, partitions=partitions)
            for topic, partitions in asked.items()
        ],
        timeout_ms=TIMEOUT_MS,
    )
    await cluster.ask_controller(request, ElectLeadersResponse)
