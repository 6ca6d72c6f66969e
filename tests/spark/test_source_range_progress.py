"""What a task asks for next: of each node all that it leads, with two fetches on their way."""

from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.limit import MIB
from penstock.model.offset import Offset
from penstock.spark.source.plan import ReadRange
from penstock.spark.source.range_progress import PlannedFetch, RangesLeft

ID = TopicId(bytes(16))
LARGE = 10**6


def ranges_of(count: int, records: int) -> RangesLeft:
    return RangesLeft(
        ReadRange(
            partition=TopicPartition("t", at), start=Offset(0), end=Offset(records), topic_id=ID
        )
        for at in range(count)
    )


def next_fetch(
    left: RangesLeft, in_flight: dict[NodeId, int] | None = None, nodes: int = 1
) -> PlannedFetch | None:
    return left.next_fetch(
        lambda one: NodeId(one.partition % nodes), in_flight=in_flight or {}, bytes_max=2 * MIB
    )


def asked(planned: PlannedFetch | None) -> list[int]:
    return [] if planned is None else [one.wanted.partition.partition for one in planned.ranges]


def test_little_data_of_one_node_is_asked_for_at_once() -> None:
    left = ranges_of(100, records=10)
    planned = next_fetch(left)
    assert asked(planned) == list(range(100))
    assert next_fetch(left, {NodeId(0): 1}) is None


def test_much_data_is_asked_for_by_two_fetches_with_half_of_the_ranges_each() -> None:
    left = ranges_of(5, records=LARGE)
    first = next_fetch(left)
    second = next_fetch(left, {NodeId(0): 1})
    assert (asked(first), asked(second)) == ([0, 1, 2], [3, 4])
    assert first is not None
    assert first.bytes_max == 2 * MIB
    left.wait(first.ranges)
    assert next_fetch(left, {NodeId(0): 2}) is None


def test_each_node_is_asked_for_what_it_leads_the_least_busy_one_first() -> None:
    left = ranges_of(6, records=10)
    assert asked(next_fetch(left, {NodeId(0): 1}, nodes=2)) == [1, 3, 5]
    assert asked(next_fetch(left, {NodeId(0): 1, NodeId(1): 1}, nodes=2)) == [0, 2, 4]


def test_a_range_that_found_no_room_is_the_first_of_the_next_fetch() -> None:
    left = ranges_of(3, records=LARGE)
    planned = left.take(lambda _: True)
    planned[0].moved(Offset(10), size_bytes=1000)
    left.wait(planned[:1])
    left.wait_first(planned[1:])
    assert [one.wanted.partition.partition for one in left.waiting] == [1, 2, 0]


def test_a_range_at_its_end_is_not_asked_for_again() -> None:
    left = ranges_of(2, records=10)
    planned = left.take(lambda _: True)
    for one in planned:
        assert not left.is_done
        one.moved(Offset(10))
    left.wait(planned)
    assert left.is_done
    assert not left.waiting


def test_time_counts_from_the_first_question_that_brought_nothing() -> None:
    """A reader that Spark keeps waiting asks for nothing meanwhile."""
    [one] = ranges_of(1, records=10).all
    assert one.asked_for_ms(50_000) == 0
    one.asked(50_000)
    one.asked(60_000)
    assert one.asked_for_ms(70_000) == 20_000
    one.moved(Offset(3), size_bytes=100)
    assert one.asked_for_ms(70_000) == 0
