"""A limited batch that ends at one time in all partitions: the limit holds, and it gets on."""

from bisect import bisect_left
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.plan import waiting
from penstock.spark.source.time_limit import EXACT_MS, limited_by_time
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_source import rows_of, stream_reader

NOW_MS = 1_780_000_000_000  # in the past
Logs = dict[TopicPartition, list[int]]  # the timestamps of their records


def place(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def since(logs: Logs, at_ms: int) -> dict[TopicPartition, Offset | None]:
    """As brokers answer: the first record at or after a time, whatever the order of times."""
    return {
        one: next((Offset(o) for o, time_ms in enumerate(times) if time_ms >= at_ms), None)
        for one, times in logs.items()
    }


def ends(logs: Logs, begin: dict[TopicPartition, Offset], limit: int) -> dict[TopicPartition, int]:
    end = {one: Offset(len(times)) for one, times in logs.items()}
    found = limited_by_time(
        begin, end, records_max=limit, since=lambda at_ms: since(logs, at_ms), until_ms=NOW_MS
    )
    assert set(found) == set(end)
    assert all(begin[one] <= found[one] <= end[one] for one in end)
    return dict(found)


@given(
    st.lists(
        st.lists(st.integers(NOW_MS - 10**9, NOW_MS + 10**7), max_size=30), min_size=1, max_size=4
    ),
    st.integers(1, 20),
)
def test_batches_keep_the_limit_and_come_to_the_end(logged: list[list[int]], limit: int) -> None:
    logs = {place(index): times for index, times in enumerate(logged)}
    position = {one: Offset(0) for one in logs}
    end = {one: Offset(len(times)) for one, times in logs.items()}
    for _ in range(waiting(position, end) + 1):
        if waiting(position, end) <= limit:
            return
        found = ends(logs, position, limit)
        # At least one record of each partition, where they are shared out by the backlog.
        assert 0 < waiting(position, found) <= max(limit, len(logs))
        position = {one: Offset(at) for one, at in found.items()}
    raise AssertionError("it did not come to the end")


def test_partitions_end_at_one_time_however_unequal_they_are() -> None:
    hour_ms = 3_600_000
    began_ms = NOW_MS - 24 * hour_ms
    logs = {
        place(0): [began_ms + number * 60_000 for number in range(1_000)],
        # Three times as much in the first hours, and nothing later.
        place(1): [began_ms + number * 20_000 for number in range(1_000)],
        place(2): [NOW_MS - 2 * hour_ms + number * 1_000 for number in range(1_000)],  # added later
    }
    position = {one: Offset(0) for one in logs}
    while sum(map(len, logs.values())) - sum(position.values()) > 400:
        found = ends(logs, position, 400)
        reached_ms = max(logs[one][at - 1] for one, at in found.items() if at > 0)
        for one, times in logs.items():
            # Nothing is left behind that is older than what was read of another partition.
            assert found[one] >= bisect_left(times, reached_ms - EXACT_MS)
        position = {one: Offset(at) for one, at in found.items()}


def test_more_than_the_limit_in_one_second_is_shared_out_by_the_backlog() -> None:
    logs = {place(0): [NOW_MS - 5] * 90, place(1): [NOW_MS - 5] * 10}
    start = {place(0): Offset(0), place(1): Offset(0)}
    assert ends(logs, start, 20) == {place(0): 18, place(1): 2}


def test_a_stream_reads_a_backlog_in_order_of_time(
    node: ServedNode, confluent: ConfluentClient, topic: Callable[..., str]
) -> None:
    """One partition has ten hours of records, the other as many of one hour."""
    name = topic(partitions=2)
    paces_ms = (180_000, 15_000)
    messages = [
        Message(value=b"v", partition=index, timestamp_ms=NOW_MS - 36_000_000 + number * pace_ms)
        for index, pace_ms in enumerate(paces_ms)
        for number in range(200)
    ]
    confluent.produce(name, messages)
    reader = stream_reader(
        node.bootstrap,
        subscribe=name,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="80",
        maxOffsetsPerTriggerBy="timestamp",
    )
    try:
        position, newest, read, batches = reader.initialOffset(), None, 0, 0
        while (end := reader.latestOffset(position, reader.getDefaultReadLimit())) != position:
            rows = rows_of(reader, reader.partitions(position, end))
            times = [row["timestamp"] for row in rows]
            assert 0 < len(times) <= 80
            assert newest is None or min(times) > newest
            position, newest, read, batches = end, max(times), read + len(times), batches + 1
        assert (read, batches >= 5) == (400, True)
    finally:
        reader.stop()
