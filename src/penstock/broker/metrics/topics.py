"""What goes into and out of each topic on this broker; see `replication/topic_traffic`.

As in Apache Kafka a topic is told from its first record on, and what has not happened is absent.
"""

from collections.abc import Mapping

from penstock.metrics.family import Source, Steps, counter
from penstock.replication.topic_traffic import TopicTraffic

PREFIX = "kafka_server_brokertopicmetrics_"
MESSAGES_IN = counter(
    f"{PREFIX}messagesin_total", "Records that were appended to partitions led here.", "topic"
)
BYTES_IN = counter(f"{PREFIX}bytesin_total", "Bytes of their batches.", "topic")
BYTES_OUT = counter(f"{PREFIX}bytesout_total", "Bytes of batches for consumers.", "topic")
REPLICATION_IN = counter(
    f"{PREFIX}replicationbytesin_total", "Bytes of batches fetched from leaders.", "topic"
)
REPLICATION_OUT = counter(
    f"{PREFIX}replicationbytesout_total", "Bytes of batches for followers.", "topic"
)
FAILED_PRODUCES = counter(
    f"{PREFIX}failedproducerequests_total", "Batches for partitions led here, refused.", "topic"
)
FAILED_FETCHES = counter(
    f"{PREFIX}failedfetchrequests_total",
    "Partitions of fetches of consumers that were answered with an error.",
    "topic",
)
EARLY_ACKED = counter(
    "penstock_early_acked_batches_total",
    "Batches for partitions led here whose producer did not ask for acks of all (acks=0 or 1).",
    "topic",
)
DUPLICATES = counter(
    "penstock_duplicate_batches_total",
    "Batches for partitions led here that were in the log, and were acked again.",
    "topic",
)
OUT_OF_ORDER = counter(
    "penstock_out_of_order_batches_total",
    "Batches for partitions led here, refused since others of their producer are missing.",
    "topic",
)
FENCED = counter(
    "penstock_fenced_batches_total",
    "Batches for partitions led here, refused since their producer was fenced.",
    "topic",
)
FAMILIES = (
    MESSAGES_IN,
    BYTES_IN,
    BYTES_OUT,
    REPLICATION_IN,
    REPLICATION_OUT,
    FAILED_PRODUCES,
    FAILED_FETCHES,
    EARLY_ACKED,
    DUPLICATES,
    OUT_OF_ORDER,
    FENCED,
)


def topic_metrics(traffic: Mapping[str, TopicTraffic]) -> Source:
    def samples() -> Steps:
        for topic, one in list(traffic.items()):
            counts = (
                one.messages_in,
                one.bytes_in,
                one.bytes_out,
                one.replication_bytes_in,
                one.replication_bytes_out,
                one.failed_produces,
                one.failed_fetches,
                one.early_acked_batches,
                one.duplicate_batches,
                one.out_of_order_batches,
                one.fenced_batches,
            )
            yield None
            for family, count in zip(FAMILIES, counts, strict=True):
                if count:
                    yield family.sample(count, topic)

    return Source(FAMILIES, samples)
