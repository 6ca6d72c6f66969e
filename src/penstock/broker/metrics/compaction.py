"""What compaction has yet to do, as the cleaner saw it when it last looked at all logs.

It does so every `log.cleaner.backoff.ms`, and after each pass.
"""

from penstock.broker.partitions.cleaning import Cleaning
from penstock.metrics.family import Source, Steps, gauge

DIRTY = gauge(
    "penstock_compaction_dirty_bytes",
    "Bytes of a topic's logs here that can be compacted and are not yet.",
    "topic",
)
RATIO = gauge(
    "penstock_compaction_dirty_ratio_max",
    "The part of a log that these bytes are, in the topic's partition here where that is most.",
    "topic",
)
PERCENT = gauge(
    "kafka_log_logcleanermanager_max_dirty_percent",
    "The same in percent, in the log of this broker where that is most.",
)
LEFT_ALONE = gauge(
    "penstock_compaction_uncleanable_partitions",
    "Logs that compaction leaves alone, since it has failed: the node's log says why.",
)


def compaction_metrics(cleaning: Cleaning) -> Source:
    def samples() -> Steps:
        bytes_of: dict[str, int] = {}
        ratio_of: dict[str, float] = {}
        for name, dirt in list(cleaning.dirt.items()):
            bytes_of[name.topic] = bytes_of.get(name.topic, 0) + dirt.dirty_bytes
            ratio_of[name.topic] = max(ratio_of.get(name.topic, 0.0), dirt.ratio)
            yield None
        for topic, dirty_bytes in bytes_of.items():
            yield DIRTY.sample(dirty_bytes, topic)
            yield RATIO.sample(ratio_of[topic], topic)
        yield PERCENT.sample(100 * max(ratio_of.values(), default=0.0))
        yield LEFT_ALONE.sample(cleaning.left_alone_count)

    return Source((DIRTY, RATIO, PERCENT, LEFT_ALONE), samples)
