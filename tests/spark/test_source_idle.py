"""A stream that has nothing to read asks seldom, and still sees what comes."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.errors import DataLoss
from penstock.spark.source.idle import LAYOUT_MS, OFFSETS_MS, Idle
from penstock.spark.source.offset_poller import Layout, OffsetPoller
from penstock.spark.source.positions import Selection
from penstock.spark.source.stream import StreamDriver
from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.serve import ServedNode
from rig.spark_source import stream_reader

EVERYTHING = ReadAllAvailable()
PATIENCE_SECONDS = 240
PLACE = TopicPartition("t", 0)


def idle(start: int, end: int, *, layout_ms: int = 0, asked_ms: int = 0) -> Idle:
    return Idle(
        start={PLACE: Offset(start)},
        end={PLACE: Offset(end)},
        log_end={PLACE: Offset(end)},
        layout_ms=layout_ms,
        asked_ms=asked_ms,
    )


@given(st.integers(0, 10**6), st.integers(-1000, 10**6))
def test_questions_are_apart_and_nobody_waits_longer(asked_ms: int, later_ms: int) -> None:
    rest_ms = idle(5, 5, asked_ms=asked_ms).rest_ms(asked_ms + later_ms)
    assert 0 <= rest_ms <= OFFSETS_MS
    if later_ms >= 0:
        assert later_ms + rest_ms >= OFFSETS_MS
    if later_ms >= OFFSETS_MS:
        assert rest_ms == 0


def test_a_layout_is_looked_up_when_it_is_old_or_when_something_waits() -> None:
    start = {PLACE: Offset(5)}
    assert idle(5, 5).layout_is_known(start, LAYOUT_MS - 1)
    assert not idle(5, 5).layout_is_known(start, LAYOUT_MS)
    assert not idle(5, 5).layout_is_known({PLACE: Offset(4)}, 1)
    assert not idle(5, 9).layout_is_known(start, 1)


class Counting(OffsetPoller):
    layouts = 0

    def layout(self, selection: Selection) -> Layout:
        self.layouts += 1
        return super().layout(selection)


def test_an_idle_stream_does_not_ask_for_the_layout_each_time(
    node: ServedNode, topic: Callable[..., str]
) -> None:
    options = stream_reader(node.bootstrap, subscribe=topic()).options
    with Counting(options) as poller:
        driver = StreamDriver(options, poller)
        start = driver.initial()
        began = time.monotonic()
        for _ in range(20):
            assert driver.next_end(start, records_max=None, patient=False) == start
        # However slow the machine is: to begin with, and then once in each LAYOUT_MS.
        assert poller.layouts <= 2 + (time.monotonic() - began) * 1000 / LAYOUT_MS


def test_an_idle_stream_sees_records_and_partitions_that_come(
    node: ServedNode, topic: Callable[..., str], confluent: ConfluentClient
) -> None:
    name = topic()
    reader = stream_reader(node.bootstrap, subscribe=name)
    try:
        start = reader.initialOffset()
        for _ in range(3):
            assert reader.latestOffset(start, EVERYTHING) == start
        confluent.produce(name, [Message(value=b"1", partition=0)])
        end = reader.latestOffset(start, EVERYTHING)
        assert end == {name: {"0": 1}}
        assert reader.latestOffset(end, EVERYTHING) == end
        confluent.add_partitions(name, total=2)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := reader.latestOffset(end, EVERYTHING)) == end:
            assert time.monotonic() < deadline
        assert found == {name: {"0": 1, "1": 0}}
        assert reader.latestOffset(found, EVERYTHING) == found
        confluent.delete_topic(name)
        with pytest.raises(DataLoss, match="-0 does not exist any more"):
            reader.latestOffset(found, EVERYTHING)
    finally:
        reader.stop()
