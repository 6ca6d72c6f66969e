"""Topics read as a stream: the driver says how far the next batch goes, and of what ranges it is.

Spark makes one reader for the driver, which lives as long as the query runs, and carries others to
the tasks. Offsets are whole: every partition that a batch ends with is in them, so a partition that
appears is read from its first record on. What a restart needs is in the offsets alone; the ids of
topics are remembered while the query runs, so that one made anew meanwhile is not taken for the
old one.

What a checkpoint has read beyond the readable end is not read again: see `plan.held`.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.connection import run
from penstock.spark.query_group import refuse_active
from penstock.spark.source.columns import check_schema
from penstock.spark.source.errors import BadPosition
from penstock.spark.source.idle import Idle
from penstock.spark.source.offset_poller import Layout, OffsetPoller
from penstock.spark.source.options import LimitBy, Patience, SourceOptions
from penstock.spark.source.plan import (
    begins,
    held,
    limited,
    limited_bytes,
    ranges,
    read_beyond,
    record_bytes_of,
    retained,
    waiting,
)
from penstock.spark.source.positions import (
    Offsets,
    as_json,
    beyond,
    explicit_offsets,
    follows_the_end,
    from_json,
)
from penstock.spark.source.read import TaskPartition, read_ranges, report_loss, task_partitions
from penstock.spark.source.time_limit import limited_by_time
from penstock.world.clock import RealClock

# A high watermark before a checkpoint is believed after so long, and so is metadata that lacks a
# partition which was read: a broker that has been replaced, or has just been started, and does not
# know it yet tells what is old.
SHORTER_MS_BELIEVED = 5_000
SIZES_MS = 10_000  # so long the average size of records is used

OffsetsJson = dict[str, dict[str, int]]

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, include_headers=options.include_headers)
        self.options = options
        self.schema = schema
        self._driver: StreamDriver | None = None  # on the driver, from the first question on

    @property
    def driver(self) -> "StreamDriver":
        if self._driver is None:
            if self.options.group is not None:
                run(refuse_active(self.options.connection, self.options.group))
            self._driver = StreamDriver(self.options, OffsetPoller(self.options))
        return self._driver

    def initialOffset(self) -> OffsetsJson:
        return as_json(self.driver.initial())

    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.fix_end()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.bytes_per_trigger_max is not None:
            return ReadMaxBytes(self.options.bytes_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        everything = isinstance(limit, ReadAllAvailable)
        end = self.driver.next_end(
            from_json(start),
            records_max=records_max,
            # Spark passes on one limit: this one holds beside the other.
            bytes_max=None if everything else self.options.bytes_per_trigger_max,
            patient=not everything,
        )
        return as_json(end)

    def reportLatestOffset(self) -> OffsetsJson | None:
        latest = self.driver.latest_seen
        return None if latest is None else as_json(latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        return self.driver.parts(from_json(start), from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return read_ranges(self.options, partition.ranges, self.schema)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class StreamDriver:
    """What the driver remembers of a running query: nothing that a restart would miss."""

    def __init__(self, options: SourceOptions, poller: OffsetPoller) -> None:
        self.options = options
        self.latest_seen: Offsets | None = None
        self._poller = poller
        self._clock = RealClock()
        self._initial: Offsets | None = None  # where a query without a checkpoint begins
        self._written_down = not follows_the_end(options.starting, options.none_that_young)
        self._fixed_end: Offsets | None = None  # of a query that ends with what there is now
        self._ids: dict[str, TopicId] = {}  # of topics when they were first seen
        self._went_ms: int | None = None  # when the last batch had enough; the first does not wait
        self._waiting: frozenset[TopicPartition] = frozenset()  # for their last stable offsets
        self._record_bytes: dict[TopicPartition, float] = {}  # on average, in each log
        self._sizes_ms = 0  # when that was asked for
        self._idle: Idle | None = None  # when there was nothing to read, and nobody asked since

    def close(self) -> None:
        self._poller.close()

    def initial(self) -> Offsets:
        """The same however often Spark asks, which it does for each batch until one is done."""
        if self._initial is None:
            self._initial = self._looked_up_initial()
        return self._initial

    def fix_end(self) -> None:
        self._fixed_end = self._poller.latest(self._layout().partitions)
        self.latest_seen = self._fixed_end

    def next_end(
        self,
        start: Offsets,
        *,
        records_max: int | None,
        bytes_max: int | None = None,
        patient: bool,
    ) -> Offsets:
        """How far the next batch goes: `start` itself when there is nothing to read."""
        if self._is_idle(start) or self._is_to_be_written_down(start):
            return start
        asked_ms = self._clock.monotonic_ms()
        layout = self._layout(expected=start)
        if self._fixed_end is None:
            log_end = self.latest_seen = self._poller.latest(layout.partitions)
        else:
            log_end = self._fixed_end = self._completed(self._fixed_end, start, layout)
        self._check_checkpoint(start)
        layout, end = self._held(start, log_end, layout)
        found = begins(start, end, earliest=self._earliest(start, end), remade=self._remade(layout))
        for what in found.losses:
            report_loss(what, fail=self.options.fail_on_data_loss)
        if self._fixed_end is None and (
            end == start or (patient and self._too_little(found.offsets, end))
        ):
            self._idle = Idle(
                start=start, end=end, log_end=log_end, layout_ms=asked_ms, asked_ms=asked_ms
            )
            return start
        return self._limited(found.offsets, end, records_max=records_max, bytes_max=bytes_max)

    def parts(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Also for a batch that another run has planned: the offsets are what counts."""
        layout = self._layout(expected=end)
        there = set(layout.partitions)
        for partition in sorted(set(end) - there):
            report_loss(
                f"{partition} does not exist any more: it was to be read up to offset"
                f" {end[partition]}",
                fail=self.options.fail_on_data_loss,
            )
        kept = {one: end[one] for one in end if one in there}
        if start == self._initial:
            # The first batch, planned before a restart: what it ends with is where it began.
            start = {one: Offset(min(at, kept.get(one, at))) for one, at in start.items()}
        found = begins(
            {one: start[one] for one in start if one in kept},
            kept,
            earliest=self._poller.earliest(kept),
            remade=self._remade(layout),
        )
        for what in found.losses:
            report_loss(what, fail=self.options.fail_on_data_loss)
        self._ids.update(layout.ids)
        whole = ranges(found.offsets, kept, ids=layout.ids)
        return [*task_partitions(whole, self.options.tasks)]

    def _completed(self, fixed_end: Offsets, start: Offsets, layout: Layout) -> Offsets:
        """With partitions that metadata lacked when the end was fixed: nobody knew then what was
        expected.
        """
        lacking = [one for one in layout.partitions if one in start and one not in fixed_end]
        return fixed_end | self._poller.latest(lacking)

    def _looked_up_initial(self) -> Offsets:
        layout = self._layout()
        latest = self._poller.latest(layout.partitions)
        start = self._poller.resolved(
            self.options.starting,
            layout.partitions,
            latest=latest,
            none_that_young=self.options.none_that_young,
        )
        told = explicit_offsets(self.options.starting)
        there = latest | self._poller.high_watermarks(read_beyond(told, latest))
        for what in beyond(self.options.starting, there, which="from"):
            report_loss(what, fail=self.options.fail_on_data_loss)
        start |= {one: latest[one] for one in read_beyond(told, there)}
        if self._fixed_end is None:
            return start
        # Spark fixes the end first; what came in between is for the next run. An offset that was
        # told is kept: `next_end` waits for it.
        return {
            one: start[one] if one in told else Offset(min(start[one], end))
            for one, end in self._fixed_end.items()
            if one in start
        }

    def _held(self, start: Offsets, end: Offsets, layout: Layout) -> tuple[Layout, Offsets]:
        """`plan.held`, with high watermarks that are asked for again as long as they lie before the
        start: each time with a new layout, which is returned, and so of the leaders of that moment.
        """
        patience = self._patience_with_old_answers
        began_ms = self._clock.monotonic_ms()
        retries = 0
        while True:
            asked = read_beyond(start, end, remade=self._remade(layout))
            high_watermarks = self._poller.high_watermarks(asked)
            waited_ms = self._clock.monotonic_ms() - began_ms
            if not read_beyond(start, high_watermarks) or patience.is_over(
                retries=retries, waited_ms=waited_ms
            ):
                ends = held(start, end, high_watermarks=high_watermarks)
                self._log_waiting([one for one in asked if ends[one] == start[one]], start, end)
                return layout, ends
            time.sleep(patience.pause_ms / 1000)
            retries += 1
            layout = self._layout()

    def _log_waiting(self, waiting: list[TopicPartition], start: Offsets, end: Offsets) -> None:
        """Once for each partition, when it begins to wait."""
        for one in waiting:
            if one not in self._waiting:
                logger.warning(
                    "partition=%s waits: it was read up to offset %s, and a transaction that is"
                    " still open ends what can be read at offset %s",
                    one, start[one], end[one],
                )  # fmt: skip
        self._waiting = frozenset(waiting)

    def _is_to_be_written_down(self, start: Offsets) -> bool:
        """Whether the first batch is to be empty. Spark writes down where batches end, and not
        where the first begins: asked after a restart, `latest` would be another place.
        """
        if self._written_down or start != self._initial:
            return False
        self._written_down = True
        return True

    def _is_idle(self, start: Offsets) -> bool:
        """Whether there is still nothing to read. Spark asks a hundred times a second: brokers are
        asked as seldom as `Idle` allows, and for offsets alone.
        """
        idle, self._idle = self._idle, None
        if idle is None:
            return False
        time.sleep(idle.rest_ms(self._clock.monotonic_ms()) / 1000)
        now_ms = self._clock.monotonic_ms()
        if not idle.layout_is_known(start, now_ms):
            return False
        if not self._poller.still_end(idle.log_end):
            return False
        self._idle = replace(idle, asked_ms=now_ms)
        return True

    def _layout(self, *, expected: Iterable[TopicPartition] = ()) -> Layout:
        """Asked for again as long as it lacks a partition that was there before: one that is taken
        for deleted by mistake would be read again from its first record.
        """
        patience = self._patience_with_old_answers
        began_ms = self._clock.monotonic_ms()
        retries = 0
        layout = self._poller.layout(self.options.selection)
        while not set(layout.partitions).issuperset(expected):
            waited_ms = self._clock.monotonic_ms() - began_ms
            if patience.is_over(retries=retries, waited_ms=waited_ms):
                break
            time.sleep(patience.pause_ms / 1000)
            retries += 1
            layout = self._poller.layout(self.options.selection)
        if layout.missing and not self._ids:
            raise BadPosition(f"{layout.missing[0]} does not exist ({self.options.selection})")
        for name, topic_id in layout.ids.items():
            self._ids.setdefault(name, topic_id)
        return layout

    @property
    def _patience_with_old_answers(self) -> Patience:
        return replace(self.options.patience, wait_ms_max=SHORTER_MS_BELIEVED)

    def _remade(self, layout: Layout) -> list[str]:
        return [name for name, topic_id in layout.ids.items() if self._ids[name] != topic_id]

    def _earliest(self, start: Offsets, end: Offsets) -> Offsets:
        """Asked only where it decides: in partitions that are new, or not as they were."""
        asked = [one for one in end if one not in start or start[one] > end[one]]
        known = self._poller.earliest(asked)
        return {one: known.get(one, start.get(one, end[one])) for one in end}

    def _limited(
        self, begin: Offsets, end: Offsets, *, records_max: int | None, bytes_max: int | None
    ) -> Offsets:
        """The end, or one that is nearer; brokers are asked only where there may be a limit."""
        too_many = records_max is not None and waiting(begin, end) > records_max
        if not too_many and (bytes_max is None or not waiting(begin, end)):
            return end
        partitions = [one for one in end if begin[one] < end[one]]
        earliest = self._poller.earliest(partitions)
        begin = retained(begin, end, earliest=earliest)
        found = end
        if too_many and self.options.offsets_per_trigger_by is LimitBy.TIMESTAMP:
            assert records_max is not None
            found = limited_by_time(
                begin,
                found,
                records_max=records_max,
                since=lambda at_ms: self._poller.since(at_ms, partitions),
                until_ms=self._clock.now_ms(),
            )
        elif records_max is not None:
            found = limited(begin, found, records_max=records_max)
        if bytes_max is not None:
            record_bytes = self._record_bytes_of(partitions, earliest=earliest, latest=end)
            found = limited_bytes(begin, found, record_bytes=record_bytes, bytes_max=bytes_max)
        return found

    def _record_bytes_of(
        self, partitions: list[TopicPartition], *, earliest: Offsets, latest: Offsets
    ) -> dict[TopicPartition, float]:
        """How large records are, asked for now and then: it changes slowly."""
        now_ms = self._clock.monotonic_ms()
        is_old = now_ms - self._sizes_ms >= SIZES_MS
        if is_old or not self._record_bytes.keys() >= set(partitions):
            sizes = self._poller.sizes(partitions)
            self._record_bytes = record_bytes_of(sizes, earliest=earliest, latest=latest)
            self._sizes_ms = now_ms
        return self._record_bytes

    def _check_checkpoint(self, start: Offsets) -> None:
        topics = sorted({one.topic for one in start})
        others = [name for name in topics if not self.options.selection.reads(name)]
        if others:
            report_loss(
                f"the checkpoint has offsets of {', '.join(others)}, which this query does not read"
                f" ({self.options.selection}): it is another query's",
                fail=self.options.fail_on_data_loss,
            )

    def _too_little(self, begin: Offsets, end: Offsets) -> bool:
        least = self.options.offsets_per_trigger_min
        if least is None:
            return False
        now_ms = self._clock.monotonic_ms()
        since_ms = self._went_ms
        late = since_ms is None or now_ms - since_ms >= self.options.trigger_delay_ms_max
        if waiting(begin, end) >= least or late:
            self._went_ms = now_ms
            return False
        return True
