"""Topics read as a stream: the driver says how far the next batch goes, and of what ranges it is.

Spark makes one reader for the driver, which lives as long as the query runs, and carries others to
the tasks. Offsets are whole: every partition that a batch ends with is in them, so a partition that
appears is read from its first record on. What a restart needs is in the offsets alone; the ids of
topics are remembered while the query runs, so that one made anew meanwhile is not taken for the
old one.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.model.identity import TopicId
from penstock.spark.connection import run
from penstock.spark.query_group import refuse_active
from penstock.spark.source.columns import check_schema
from penstock.spark.source.lookout import Layout, Lookout
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.plan import begins, limited, ranges, split, waiting
from penstock.spark.source.positions import Offsets, as_json, from_json
from penstock.spark.source.read import RangePartition, read_range, report_loss
from penstock.spark.source.trouble import BadPosition
from penstock.world.clock import RealClock

OffsetsJson = dict[str, dict[str, int]]


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
            self._driver = StreamDriver(self.options)
        return self._driver

    def initialOffset(self) -> OffsetsJson:
        return as_json(self.driver.initial())

    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.fix_end()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.offsets_per_trigger_max is not None:
            return ReadMaxRows(self.options.offsets_per_trigger_max)
        if self.options.offsets_per_trigger_min is not None:
            return ReadMinRows(self.options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetsJson, limit: ReadLimit) -> OffsetsJson:
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        patient = not isinstance(limit, ReadAllAvailable)
        return as_json(
            self.driver.next_end(from_json(start), records_max=records_max, patient=patient)
        )

    def reportLatestOffset(self) -> OffsetsJson | None:
        latest = self.driver.latest_seen
        return None if latest is None else as_json(latest)

    def partitions(self, start: OffsetsJson, end: OffsetsJson) -> Sequence[InputPartition]:
        return self.driver.parts(from_json(start), from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        assert partition.wanted is not None
        return read_range(self.options, partition.wanted, self.schema)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class StreamDriver:
    """What the driver remembers of a running query: nothing that a restart would miss."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.latest_seen: Offsets | None = None
        self._lookout = Lookout(options.connection, options.isolation)
        self._clock = RealClock()
        self._fixed_end: Offsets | None = None  # of a query that ends with what there is now
        self._ids: dict[str, TopicId] = {}  # of topics when they were first seen
        self._waiting_since_ms: int | None = None  # for the least that a trigger wants

    def close(self) -> None:
        self._lookout.close()

    def initial(self) -> Offsets:
        layout = self._layout()
        latest = self._lookout.latest(layout.partitions)
        return self._lookout.resolved(
            self.options.starting,
            layout.partitions,
            latest=latest,
            none_that_young=self.options.none_that_young,
        )

    def fix_end(self) -> None:
        self._fixed_end = self._lookout.latest(self._layout().partitions)
        self.latest_seen = self._fixed_end

    def next_end(self, start: Offsets, *, records_max: int | None, patient: bool) -> Offsets:
        """How far the next batch goes: `start` itself when there is nothing to read."""
        layout = self._layout()
        end = self._fixed_end
        if end is None:
            end = self.latest_seen = self._lookout.latest(layout.partitions)
        self._check_checkpoint(start)
        found = begins(start, end, earliest=self._earliest(start, end), remade=self._remade(layout))
        for what in found.losses:
            report_loss(what, fail=self.options.fail_on_data_loss)
        if patient and self._fixed_end is None and self._too_little(found.offsets, end):
            return start
        if records_max is not None:
            end = limited(found.offsets, end, records_max=records_max)
        return end

    def parts(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Also for a batch that another run has planned: the offsets are what counts."""
        layout = self._layout()
        there = set(layout.partitions)
        for partition in sorted(set(end) - there):
            report_loss(
                f"{partition} is gone: it was to be read up to offset {end[partition]}",
                fail=self.options.fail_on_data_loss,
            )
        kept = {one: end[one] for one in end if one in there}
        found = begins(
            {one: start[one] for one in start if one in kept},
            kept,
            earliest=self._lookout.earliest(kept),
            remade=self._remade(layout),
        )
        for what in found.losses:
            report_loss(what, fail=self.options.fail_on_data_loss)
        self._ids.update(layout.ids)
        parts = split(
            ranges(found.offsets, kept, ids=layout.ids),
            parts_min=self.options.partitions_min,
            records_max=self.options.records_per_partition_max,
        )
        return [RangePartition(one) for one in parts]

    def _layout(self) -> Layout:
        layout = self._lookout.layout(self.options.selection)
        if layout.missing and not self._ids:
            raise BadPosition(f"there is no {layout.missing[0]} to read ({self.options.selection})")
        for name, topic_id in layout.ids.items():
            self._ids.setdefault(name, topic_id)
        return layout

    def _remade(self, layout: Layout) -> list[str]:
        return [name for name, topic_id in layout.ids.items() if self._ids[name] != topic_id]

    def _earliest(self, start: Offsets, end: Offsets) -> Offsets:
        """Asked only where it decides: in partitions that are new, or not as they were."""
        asked = [one for one in end if one not in start or start[one] > end[one]]
        known = self._lookout.earliest(asked)
        return {one: known.get(one, start.get(one, end[one])) for one in end}

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
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        late = now_ms - self._waiting_since_ms >= self.options.trigger_delay_ms_max
        if waiting(begin, end) >= least or late:
            self._waiting_since_ms = now_ms
            return False
        return True
