"""How fast Spark reads topics: our source beside Spark's own Kafka connector, in one JVM.

    python bench/spark_read.py                  12 partitions of 1 KB and of 100 B, and 200
                                                partitions of little data
    python bench/spark_read.py --more           also one task a partition, and one large partition
    python bench/spark_read.py --before SRC     also what the checkout of this src folder reads
    python bench/spark_read.py --only '1000 B' --megabytes 500 --master 'local[1]'

Every way reads all columns of the whole topic into nowhere (format noop). The floor is a Python
source that yields as many ready Arrow batches, in as many tasks as ours has. A second table tells
where the CPU goes. The connector's jars come from Maven Central where it can be reached; without
them there are fewer ways.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from spark_rounds import Case, Way
from spark_run import Place, run
from spark_sides import BEFORE, CONNECTOR, FLOOR, OURS
from spark_topics import fill

PARTITIONS = 12
MANY_PARTITIONS, LITTLE_RECORDS = 200, 50  # so many partitions, with so many records each
TITLES = {OURS: "ours", BEFORE: "before", CONNECTOR: "connector", FLOOR: "floor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A topic to be read."""

    topic: str
    value_bytes: int
    records: int


def cases(place: Place) -> Iterator[Case]:
    for size in sorted(place.sizes, reverse=True):
        name = f"read {size} B, {PARTITIONS} partitions"
        if place.wants(name):
            yield case(place, name, filled(place, f"read-{size}", PARTITIONS, size))
    name = f"read {MANY_PARTITIONS} partitions of little data"
    if place.wants(name):
        records = MANY_PARTITIONS * LITTLE_RECORDS
        many = filled(place, "read-many", MANY_PARTITIONS, min(place.sizes), records)
        yield case(place, name, many, little=True)
        if place.more:
            each = {"maxPartitions": str(MANY_PARTITIONS)}
            yield case(place, f"{name}, a task each", many, own_options=each, little=True)
    size = max(place.sizes)
    name = f"read {size} B, 1 partition"
    if place.more and place.wants(name):
        single = filled(place, "read-single", 1, size)
        for tasks in (1, 2, 4):
            options = {"minPartitions": str(tasks)}
            yield case(place, f"{name}, tasks: {tasks}", single, options=options)


def filled(
    place: Place, topic: str, partitions: int, value_bytes: int, records: int | None = None
) -> Filled:
    if records is None:
        records = place.megabytes * 10**6 // value_bytes
    fill(
        place.bootstrap,
        topic,
        partitions=partitions,
        value_bytes=value_bytes,
        records=records,
        compression=place.compression,
    )
    return Filled(topic=topic, value_bytes=value_bytes, records=records)


def case(
    place: Place,
    name: str,
    read: Filled,
    *,
    options: Mapping[str, str] | None = None,
    own_options: Mapping[str, str] | None = None,
    little: bool = False,
) -> Case:
    asked = {"kafka.bootstrap.servers": place.bootstrap, "subscribe": read.topic, **(options or {})}
    told = {OURS: {**asked, **(own_options or {})}, BEFORE: asked, CONNECTOR: asked}
    tasks = place.spark.read.format(OURS).options(**told[OURS]).load().rdd.getNumPartitions()
    told[FLOOR] = {
        "rows": str(read.records),
        "valueBytes": str(read.value_bytes),
        "tasks": str(tasks),
    }
    return Case(
        name=name,
        rows=read.records,
        value_bytes=read.value_bytes,
        ways={
            title: reading(place, kind, told[kind])
            for kind, title in TITLES.items()
            if kind in place.formats
        },
        compared_with=("before", "connector"),
        floor="floor",
        little=little,
    )


def reading(place: Place, kind: str, options: Mapping[str, str]) -> Way:
    """A frame is made once for each run, as a stream makes it once for all its batches."""
    frames: list[DataFrame] = []

    def load() -> None:
        frames[:] = [place.spark.read.format(kind).options(**options).load()]

    def read() -> None:
        frames[0].write.format("noop").mode("overwrite").save()

    return Way(prepare=load, run=read)


if __name__ == "__main__":
    run(__doc__, cases)
