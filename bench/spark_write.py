"""How fast Spark writes topics: our sink beside Spark's own Kafka connector, in one JVM.

    python bench/spark_write.py                  1 KB and 100 B into 12 partitions, and records
                                                 with headers from topic to topic
    python bench/spark_write.py --before SRC     also what the checkout of this src folder writes
    python bench/spark_write.py --only headers --megabytes 100 --compression lz4
    python bench/spark_write.py --arrow-rows 2000,10000,50000 --chunk-kib 1024,4096,16384

Every way writes the same rows, which Spark makes on the way, into a topic of its own, which is
deleted afterwards. Ours is measured with both deliveries; the connector knows only at least once.
Rows with headers come from a topic, by the source of the same format. The floor is a Python sink
that discards the same rows; those with headers come from our source then. A second table tells
where the CPU goes.

With `--arrow-rows` or `--chunk-kib` (both: each with each) also in those sizes, exactly once: the
rows that Spark hands over at once, and the bytes that the sink encodes at once.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from spark_rounds import Case, Way
from spark_run import Place, run
from spark_sides import BEFORE, CONNECTOR, FLOOR, OURS, with_chunks
from spark_topics import create, delete, fill, offsets

PARTITIONS = 12
TASKS = 4
HEADERS = [("trace", b"4bf92f3577b34da6a3ce929d0e0e4736"), ("origin", b"bench")]
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly once", "at least once"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    kind: str  # a format of Spark
    options: Mapping[str, str] = field(default_factory=dict)
    arrow_rows: int | None = None  # as many as Spark has by default


# "before" writes exactly once, which always was the default.
SIDES: Mapping[str, Side] = {
    EXACTLY_ONCE: Side(kind=OURS),
    AT_LEAST_ONCE: Side(kind=OURS, options={"delivery": "at_least_once"}),
    "before": Side(kind=BEFORE),
    "connector": Side(kind=CONNECTOR),
    "floor": Side(kind=FLOOR),
}
TOPIC_NUMBERS = itertools.count(1)

Frames = Callable[[str], DataFrame]  # the rows, for a sink of this format


def cases(place: Place) -> Iterator[Case]:
    for size in sorted(place.sizes, reverse=True):
        rows = place.megabytes * 10**6 // size
        name = f"write {size} B, {PARTITIONS} partitions"
        if place.wants(name):
            frame = rows_of(place, rows, size)
            yield case(place, name, rows, size, lambda _, frame=frame: frame)
    for size in sorted(place.sizes, reverse=True):
        rows = place.megabytes * 10**6 // size
        name = f"pass {size} B with headers on"
        if place.wants(name):
            yield case(place, name, rows, size, passed_on(place, rows, size))


def rows_of(place: Place, rows: int, size: int) -> DataFrame:
    return place.spark.range(rows, numPartitions=TASKS).selectExpr(
        "cast(cast(id as string) as binary) as key",
        f"cast(rpad(cast(id as string), {size}, 'penstock') as binary) as value",
    )


def passed_on(place: Place, rows: int, size: int) -> Frames:
    """Rows with headers as they are read from a topic."""
    topic = f"write-headers-{size}"
    fill(
        place.bootstrap,
        topic,
        partitions=PARTITIONS,
        value_bytes=size,
        records=rows,
        compression=place.compression,
        headers=HEADERS,
    )

    def read(sink: str) -> DataFrame:
        source = OURS if sink == FLOOR else sink
        told = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": topic}
        reader = place.spark.read.format(source).options(**told, includeHeaders="true")
        return reader.load().select("key", "value", "headers")

    return read


def case(place: Place, name: str, rows: int, size: int, frames: Frames) -> Case:
    sizes = sized(place)
    return Case(
        name=name,
        rows=rows,
        value_bytes=size,
        ways={
            title: writing(place, side, rows, frames)
            for title, side in {**sizes, **SIDES}.items()
            if side.kind in place.formats
        },
        compared_with=(*([EXACTLY_ONCE] if sizes else []), "before", "connector"),
        floor="floor",
    )


def sized(place: Place) -> Mapping[str, Side]:
    """Our sink with every size that was asked for."""
    found = {}
    for rows, kib in itertools.product(place.arrow_rows or [None], place.chunk_kib or [None]):
        sizes = [
            *([] if rows is None else [f"{rows:,} rows"]),
            *([] if kib is None else [f"{kib:,} KiB"]),
        ]
        if sizes:
            kind = OURS if kib is None else with_chunks(kib)
            found[", ".join(sizes)] = Side(kind=kind, arrow_rows=rows)
    return found


def writing(place: Place, side: Side, rows: int, frames: Frames) -> Way:
    kind = side.kind
    topics: list[str] = []
    found: list[DataFrame] = []

    def prepare() -> None:
        if side.arrow_rows is not None:
            place.spark.conf.set(ARROW_ROWS, side.arrow_rows)
        found[:] = [frames(kind)]
        topics[:] = [f"write-{next(TOPIC_NUMBERS)}"]
        create(place.bootstrap, topics[0], PARTITIONS)

    def write() -> None:
        writer = found[0].write.format(kind).mode("append").options(**side.options)
        writer.option("kafka.bootstrap.servers", place.bootstrap)
        writer.option("kafka.compression.type", place.compression)
        writer.option("topic", topics[0]).save()

    def check_and_delete() -> None:
        place.spark.conf.unset(ARROW_ROWS)
        expected = 0 if kind == FLOOR else rows
        there = offsets(place.bootstrap, topics[0], PARTITIONS)
        assert there >= expected, f"{kind} wrote {there} of {expected} rows"
        delete(place.bootstrap, topics[0])

    return Way(prepare=prepare, run=write, end=check_and_delete)


if __name__ == "__main__":
    run(__doc__, cases)
