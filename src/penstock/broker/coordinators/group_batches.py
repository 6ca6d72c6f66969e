"""How decisions about groups are written: one batch each."""

from collections.abc import Sequence

from penstock.broker.coordinators.partition_journal import Place
from penstock.groups.records import GroupRecord, encode
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record


def group_batch(records: Sequence[GroupRecord], place: Place, *, codec: Codec) -> bytearray:
    return build_batch(
        [Record(*encode(record), timestamp_ms=place.now_ms) for record in records],
        base_offset=place.base_offset,
        leader_epoch=place.leader_epoch,
        codec=codec,
    )
