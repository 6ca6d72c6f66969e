"""How many requests write to a partition, estimated from its log.

A producer sends at most one batch of a partition in a request, and the leader stores it as it is:
each batch of the log was one request. The number of batches written is the number of offsets, times
the batches for each offset in a sample, which one fetch reads. A marker of a transaction is a batch
too, and a request to the leader.

Requests of readers leave no trace in a log, and no public API counts them.
"""

from collections.abc import Mapping, Sequence

from penstock.client.admin.last_batches import LogRange, batches_from
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError
from penstock.model.identity import TopicPartition
from penstock.model.limit import KIB
from penstock.records.batch import BatchView

# Many batches where they are small and requests are many; at least one where they are large.
SAMPLE_BYTES = 16 * KIB


async def batches_per_record(
    cluster: Cluster, written: Mapping[TopicPartition, LogRange]
) -> dict[TopicPartition, float]:
    """From the first batches that were written to each partition. Partitions without new records,
    and those that can't be read, are missing.
    """
    found = {}
    for place, log in written.items():
        if not log.count:
            continue
        try:
            batches = await batches_from(cluster, place, log.start_offset, bytes_max=SAMPLE_BYTES)
        except ClientError:
            continue  # not authorised to read it, or its leader does not answer just now
        share = share_of(batches)
        if share is not None:
            found[place] = share
    return found


def share_of(batches: Sequence[BatchView]) -> float | None:
    """Batches for each offset that they take. None without any."""
    offsets = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
    return len(batches) / offsets if offsets > 0 else None
