"""Batches as a producer sends them, for tests of the leader's side."""

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.batch import BatchView
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record

NOW_MS = 1_700_000_000_000


def produced(
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    value: bytes = b"value",
    key: bytes | None = b"key",
    codec: Codec = Codec.NONE,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> memoryview:
    """One batch of `count` equal records."""
    records = [Record(key, value, timestamp_ms=timestamp_ms + index) for index in range(count)]
    return memoryview(
        build_batch(
            records,
            codec=codec,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(epoch),
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def produced_view(count: int = 1, *, producer_id: int, epoch: int, sequence: int) -> BatchView:
    return BatchView(produced(count, producer_id=producer_id, epoch=epoch, sequence=sequence))
