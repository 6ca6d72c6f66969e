"""`__consumer_offsets`, as it is made when it is first needed."""

from penstock.broker.coordinators.internal_topic import internal_topic
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.model.settings.groups import GroupSettings
from penstock.wire.messages.create_topics import CreatableTopic


def offsets_topic(image: Image, settings: GroupSettings, *, may_be_alone: bool) -> CreatableTopic:
    """Compacted, in small segments."""
    return internal_topic(
        OFFSETS_TOPIC,
        partitions=settings.offsets_topic_num_partitions,
        replicas=settings.offsets_topic_replication_factor,
        brokers=len(image.brokers),
        may_be_alone=may_be_alone,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        },
    )
