"""Rows of Spark as record batches: from Arrow columns to bytes, without an object for a row.

The record kernel takes the rows of a chunk partition by partition, as many as a batch may hold, in
an order that is computed from their keys. Copies: one into the record batch, one more where that is
compressed, and one of headers before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.identity import TopicPartition
from penstock.model.offset import NO_LEADER_EPOCH
from penstock.model.sequence import NO_SEQUENCE
from penstock.records.build import seal_batch
from penstock.records.compression import Codec, compress
from penstock.records.layout import FIRST_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.records.walked import BytesColumn
from penstock.records.write import encode_columns, encode_header_columns, partitions_of
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.errors import WrongColumns

NOWHERE = -1  # the partition of a row that has neither a partition nor a key
PARTITIONS_BITS = 32


@dataclass(slots=True, kw_only=True)
class BatchBuilder:
    """Of one task. Rows that belong nowhere fill a batch of one partition before the next one's
    turn comes; `turn` tells where that begins, so that not all tasks begin at the same one.
    """

    columns: Columns
    topic: str | None
    codec: Codec
    batch_bytes: int
    turn: int
    _turns: dict[str, int] = field(default_factory=dict)

    def topics(self, rows: pa.RecordBatch) -> list[str]:
        """Those which the rows are for; a row that is for none is WrongColumns."""
        if self.topic is not None:
            return [self.topic]
        assert self.columns.topic is not None
        found = _objects(rows.column(self.columns.topic).unique(), "the column topic")
        if None in found:
            raise WrongColumns("a row has no topic: its column topic is null")
        return sorted(found)

    def batches(
        self, rows: pa.RecordBatch, counts: Mapping[str, int], *, now_ms: int
    ) -> Iterator[tuple[TopicPartition, bytearray]]:
        """The rows as record batches, in order within each partition. `counts` says how many
        partitions each topic has.
        """
        topics = self.topics(rows)
        places = self._places(rows, topics, counts)
        order = _order(places)
        sorted_places = places if order is None else places[order]
        order_given = None if order is None else order.data
        keys = _bytes_column(rows, self.columns.key)
        values = _bytes_column(rows, self.columns.value)
        headers = _headers_column(rows, self.columns.headers)
        times = _times(rows, self.columns.timestamp, now_ms)
        ends = [*(np.flatnonzero(np.diff(sorted_places)) + 1).tolist(), rows.num_rows]
        start = 0
        for end in ends:
            topic, partition = divmod(int(sorted_places[start]), 1 << PARTITIONS_BITS)
            place = TopicPartition(topics[topic], partition)
            while start < end:
                encoded = encode_columns(
                    keys, values, headers, times, order_given, start, end, self.batch_bytes
                )
                start += encoded.record_count
                yield (
                    place,
                    seal_batch(
                        compress(self.codec, encoded.payload),
                        base_offset=FIRST_OFFSET,
                        leader_epoch=NO_LEADER_EPOCH,
                        attributes=self.codec,
                        base_timestamp=encoded.base_timestamp,
                        max_timestamp=encoded.max_timestamp,
                        producer_id=NO_PRODUCER_ID,
                        producer_epoch=NO_PRODUCER_EPOCH,
                        base_sequence=NO_SEQUENCE,
                        record_count=encoded.record_count,
                    ),
                )

    def _places(
        self, rows: pa.RecordBatch, topics: list[str], counts: Mapping[str, int]
    ) -> "np.ndarray[Any, Any]":
        """For each row the number of its topic, and below it its partition."""
        keys, wishes = _column(rows, self.columns.key), _column(rows, self.columns.partition)
        row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
        if self.topic is not None or len(topics) == 1:
            [topic] = topics
            one = _Destined(keys, wishes, rows.num_rows, row_bytes)
            return self._partitions(one, topic, counts[topic]).astype(np.int64)
        assert self.columns.topic is not None
        names = rows.column(self.columns.topic)
        places = np.empty(rows.num_rows, dtype=np.int64)
        for number, topic in enumerate(topics):
            where = np.flatnonzero(pc.equal(names, topic).to_numpy(zero_copy_only=False))
            part = _Destined(_taken(keys, where), _taken(wishes, where), where.size, row_bytes)
            places[where] = self._partitions(part, topic, counts[topic])
            places[where] += number << PARTITIONS_BITS
        return places

    def _partitions(self, rows: "_Destined", topic: str, count: int) -> "np.ndarray[Any, Any]":
        if rows.keys is None:
            found = np.full(rows.count, NOWHERE, dtype=np.int32)
        else:
            by_key = partitions_of(_as_bytes(rows.keys), count, 0, rows.count)
            found = np.frombuffer(by_key, dtype=np.int32).copy()
        if rows.wishes is not None:
            wished = pc.fill_null(rows.wishes, NOWHERE)
            wishes = wished.to_numpy(zero_copy_only=False)
            if wishes.size and (wishes.max() >= count or wishes.min() < NOWHERE):
                wrong = wishes.max() if wishes.max() >= count else wishes.min()
                raise WrongColumns(
                    f"a row's partition is {wrong}: topic {topic} has partitions 0 to {count - 1}"
                )
            found = np.where(wishes == NOWHERE, found, wishes)
        nowhere = np.flatnonzero(found == NOWHERE)
        if nowhere.size:
            runs = np.arange(nowhere.size) // max(1, self.batch_bytes // rows.row_bytes)
            turn = self._turns.get(topic, self.turn)
            found[nowhere] = (turn + runs) % count
            self._turns[topic] = turn + int(runs[-1]) + 1
        return found


@dataclass(frozen=True, slots=True)
class _Destined:
    """What says where rows of one topic belong."""

    keys: pa.Array | None
    wishes: pa.Array | None  # their column partition
    count: int
    row_bytes: int  # about


def _order(places: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any] | None":
    """The numbers of the rows by their places, as int64; None where the rows are in that order.
    Small numbers are sorted without being compared.
    """
    if (places[1:] >= places[:-1]).all():
        return None
    if places.max() <= np.iinfo(np.int16).max:
        places = places.astype(np.int16)
    return np.argsort(places, kind="stable").astype(np.int64, copy=False)


def _column(rows: pa.RecordBatch, place: int | None) -> pa.Array | None:
    return None if place is None else rows.column(place)


def _taken(column: pa.Array | None, where: "np.ndarray[Any, Any]") -> pa.Array | None:
    return None if column is None else column.take(pa.array(where))


def _bytes_column(rows: pa.RecordBatch, place: int | None) -> BytesColumn | None:
    return None if place is None else _as_bytes(rows.column(place))


def _as_bytes(column: pa.Array) -> BytesColumn:
    validity, offsets, data = column.buffers()
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    return BytesColumn(
        data=b"" if data is None else data,
        offsets=bytes(8) if offsets is None else offsets,
        offset_bytes=8 if wide else 4,
        validity=validity,
        start=column.offset,
    )


def _headers_column(rows: pa.RecordBatch, place: int | None) -> BytesColumn | None:
    if place is None or rows.column(place).null_count == rows.num_rows:
        return None
    lists = rows.column(place)
    names, contents = lists.flatten().flatten()
    if names.null_count:
        raise WrongColumns("a row has a header without a key: each has to have one")
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        _objects(names.unique(), "the key of a header")
        raise
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return encode_header_columns(
        _as_bytes(names), _as_bytes(contents), np.ascontiguousarray(counts).data
    )


def _objects(column: pa.Array, what: str) -> list[Any]:
    """Spark casts any bytes to a string, and Kafka's names of topics and headers are UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as error:
        raise WrongColumns(f"{what} is not UTF-8 in a row: {error.object!r}") from error


def _times(rows: pa.RecordBatch, place: int | None, now_ms: int) -> memoryview:
    if place is None:
        return np.full(rows.num_rows, now_ms, dtype=np.int64).data
    times = rows.column(place).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    known = pc.fill_null(times, now_ms).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(known).data
