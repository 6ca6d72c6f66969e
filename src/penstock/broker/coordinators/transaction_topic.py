"""`__transaction_state`, as it is made when it is first needed."""

from penstock.broker.coordinators.internal_topic import internal_topic
from penstock.metadata.image.image import Image
from penstock.model.settings.transactions import TransactionSettings
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.wire.messages.create_topics import CreatableTopic


def transaction_topic(
    image: Image, settings: TransactionSettings, *, may_be_alone: bool
) -> CreatableTopic:
    """Compacted, never compressed, and no leader is elected that may lack what was decided."""
    return internal_topic(
        TRANSACTION_TOPIC,
        partitions=settings.transaction_state_log_num_partitions,
        replicas=settings.transaction_state_log_replication_factor,
        brokers=len(image.brokers),
        may_be_alone=may_be_alone,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
