"""Another client has taken over a prepared transaction (KIP-939): its writer is stopped everywhere.

The coordinator has committed the new identity, so that no further partition is verified for the
writer. Each leader of a partition in the transaction must forget its earlier verifications, and say
so: only then is the new client told that the transaction is its own. Leaders on other nodes get a
WriteTxnMarkers without markers, which names the partitions in a tagged field of ours. A node that
does not know the field does nothing, and acknowledges nothing.
"""

import asyncio
from collections.abc import Mapping

from penstock.broker.controller.links import Lane, Links
from penstock.client.network.errors import ClientError
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerId, TopicPartition
from penstock.transactions.markers import StopWriter
from penstock.wire.messages.write_txn_markers import (
    StoppedWriter,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REPLY_WAIT_MS_MAX = 5_000

Epochs = dict[TopicPartition, int]  # the epoch of each partition's leader


async def stop_elsewhere(links: Links, stop: StopWriter, image: Image, *, node_id: NodeId) -> bool:
    """Whether all leaders on other nodes have acknowledged it. A deleted partition has none; one
    that has no leader now may get back one that still takes the writer's batches.
    """
    by_node: dict[NodeId, Epochs] = {}
    for name in stop.partitions:
        topic = image.topics_by_name.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            continue
        partition = topic.partitions[name.partition]
        if partition.leader is None:
            return False
        if partition.leader != node_id:
            by_node.setdefault(partition.leader, {})[name] = partition.leader_epoch
    acknowledged = await asyncio.gather(
        *(_stop_on(links, node, stop.producer_id, epochs) for node, epochs in by_node.items())
    )
    return all(acknowledged)


async def _stop_on(links: Links, node_id: NodeId, producer_id: ProducerId, epochs: Epochs) -> bool:
    try:
        reply = await links.ask(
            node_id,
            stop_request(producer_id, epochs),
            WriteTxnMarkersResponse,
            lane=Lane.VERIFICATION,
            timeout_ms=REPLY_WAIT_MS_MAX,
        )
    except ClientError:
        return False
    return acknowledged_in(reply, producer_id) >= epochs.keys()


def stop_request(
    producer_id: ProducerId, epochs: Mapping[TopicPartition, int]
) -> WriteTxnMarkersRequest:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for (name, index), leader_epoch in epochs.items():
        topic = topics.setdefault(name, WritableTxnMarkerTopic(name=name))
        topic.partition_indexes.append(index)
        topic.leader_epochs.append(leader_epoch)
    stopped = StoppedWriter(producer_id=producer_id, topics=list(topics.values()))
    return WriteTxnMarkersRequest(stopped_writers=[stopped])


def acknowledged_in(reply: WriteTxnMarkersResponse, producer_id: ProducerId) -> set[TopicPartition]:
    return {
        TopicPartition(topic.name, result.partition_index)
        for writer in reply.stopped_writers
        if writer.producer_id == producer_id
        for topic in writer.topics
        for result in topic.partitions
        if result.error_code == ErrorCode.NONE
    }
