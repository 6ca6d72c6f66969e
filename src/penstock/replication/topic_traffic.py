"""What went into and out of the replicas of one topic on this node, since the node started.

All replicas of the topic here share one object, so that its counts go on when leaders change. Each
batch that a leader appends is counted, with the records that its header says it has; replies to
fetches are counted in bytes.
"""


class TopicTraffic:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "duplicate_batches",
        "early_acked_batches",
        "failed_fetches",
        "failed_produces",
        "fenced_batches",
        "messages_in",
        "out_of_order_batches",
        "replication_bytes_in",
        "replication_bytes_out",
        "unacked_produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0  # appended by leaders here
        self.bytes_in = 0
        self.bytes_out = 0  # sent to consumers
        self.early_acked_batches = 0  # whose producer did not wait for all replicas in sync
        self.replication_bytes_in = 0  # appended by followers here
        self.replication_bytes_out = 0  # sent to followers
        self.failed_produces = 0  # batches that were refused
        self.unacked_produces = 0  # batches that were appended, and not acknowledged in time
        self.fenced_batches = 0  # of them, those of a producer epoch that is past
        self.out_of_order_batches = 0  # of them, those with a gap before them
        self.duplicate_batches = 0  # that were in the log, and are acked again
        self.failed_fetches = 0  # partitions of fetches of consumers that were refused
