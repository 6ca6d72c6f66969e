"""Topics read once: the ranges are fixed on the driver when the query is planned."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.model.offset import Offset
from penstock.spark.source.columns import check_schema
from penstock.spark.source.errors import BadPosition
from penstock.spark.source.filters import Narrowed, narrowed
from penstock.spark.source.offset_poller import OffsetPoller
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.plan import ReadRange, begins, ranges, read_beyond
from penstock.spark.source.positions import NoneThatYoung, beyond, explicit_offsets
from penstock.spark.source.read import TaskPartition, read_ranges, report_loss, task_partitions


class BatchReader(DataSourceReader):
    """Made on the driver and carried to the tasks as it is, with what it was told before that."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_schema(schema, include_headers=options.include_headers)
        self.options = options
        self.schema = schema
        self.narrowed = Narrowed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark looks at every row again: what is spared here is whole ranges."""
        self.narrowed = narrowed(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        with OffsetPoller(self.options) as poller:
            found = planned_once(poller, self.options, self.narrowed)
        # Spark makes a task of its own where a source has none.
        return task_partitions(found, self.options.tasks) or [TaskPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return read_ranges(self.options, partition.ranges, self.schema)


def planned_once(poller: OffsetPoller, options: SourceOptions, spared: Narrowed) -> list[ReadRange]:
    """One range for each partition, from where to where the options say."""
    layout = poller.layout(options.selection)
    for name in layout.missing:
        raise BadPosition(f"{name} does not exist ({options.selection})")
    partitions = layout.partitions
    latest = poller.latest(partitions)
    start = poller.resolved(
        options.starting, partitions, latest=latest, none_that_young=options.none_that_young
    )
    end = poller.resolved(
        options.ending, partitions, latest=latest, none_that_young=NoneThatYoung.LATEST
    )
    told = explicit_offsets(options.starting)
    there = latest | poller.high_watermarks(read_beyond(told, latest))
    for what in (
        *beyond(options.starting, there, which="from"),
        *beyond(options.ending, latest, which="up to"),
    ):
        report_loss(what, fail=options.fail_on_data_loss)
    # Records that came since `latest` was asked are not read, wherever times and edges lead now.
    end = {one: Offset(min(end[one], latest[one])) for one in end}
    start = {one: Offset(min(start[one], end[one])) for one in start}
    found = begins(start, end, earliest=poller.earliest(partitions))
    for what in found.losses:
        report_loss(what, fail=options.fail_on_data_loss)
    return _since(
        poller, spared.cut(ranges(found.offsets, end, ids=layout.ids)), spared.timestamp_ms_min
    )


def _since(
    poller: OffsetPoller, whole: list[ReadRange], timestamp_ms: int | None
) -> list[ReadRange]:
    """Without what is older, as far as the brokers can tell."""
    if timestamp_ms is None or not whole:
        return whole
    first = poller.since(max(0, timestamp_ms), [one.partition for one in whole])
    found = []
    for one in whole:
        at = first[one.partition]
        if at is not None and at < one.end:
            found.append(replace(one, start=Offset(max(one.start, at))))
    return found
