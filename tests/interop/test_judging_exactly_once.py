"""What a pipeline did wrong is found out, each thing by its name."""

from dataclasses import replace

from rig.pipeline.judgement import Judgement, judge
from rig.pipeline.stream import KEYS, Attempt, key_of, sink_partition_of
from rig.pipeline.witness import Seen

RECORDS = 3 * KEYS
FIRST = Attempt("worker0.1", 1)
COMMITTED_AT_NS = 100
RIGHT = Judgement(
    read=RECORDS,
    duplicates=0,
    missing=0,
    foreign=0,
    out_of_order=0,
    before_commit=0,
    seen_otherwise=0,
)


def all_of_it() -> list[Seen]:
    return [seen(number) for number in range(RECORDS)]


def seen(number: int, *, offset: int | None = None, at_ns: int = 200) -> Seen:
    return Seen(
        partition=sink_partition_of(key_of(number)),
        offset=number if offset is None else offset,
        key=key_of(number),
        number=number,
        attempt=FIRST,
        at_ns=at_ns,
    )


def judged(found: list[Seen], at_end: list[Seen] | None = None) -> Judgement:
    at_end = found if at_end is None else at_end
    return judge(found, records=RECORDS, commits={FIRST: COMMITTED_AT_NS}, at_end=at_end)


def test_what_came_out_once_and_in_order_is_right() -> None:
    assert judged(all_of_it()) == RIGHT
    assert judged(all_of_it()).faults == {}


def test_a_record_that_came_twice_is_a_duplicate_and_out_of_order() -> None:
    found = [*all_of_it(), seen(KEYS, offset=RECORDS)]
    assert judged(found) == replace(RIGHT, read=RECORDS + 1, duplicates=1, out_of_order=1)


def test_a_record_that_never_came_is_missing() -> None:
    found = [one for one in all_of_it() if one.number != 7]
    assert judged(found) == replace(RIGHT, read=RECORDS - 1, missing=1)


def test_records_of_a_key_that_changed_places_are_out_of_order() -> None:
    found = all_of_it()
    first, second = found[0], found[KEYS]
    found[0] = first._replace(number=second.number)
    found[KEYS] = second._replace(number=first.number)
    assert judged(found) == replace(RIGHT, out_of_order=1)


def test_an_offset_that_went_back_is_out_of_order() -> None:
    found = all_of_it()
    found[0], found[1] = (one._replace(partition=0) for one in (found[1], found[0]))
    assert judged(found).out_of_order == 1


def test_a_record_with_a_foreign_key_or_number_is_foreign() -> None:
    found = [*all_of_it(), seen(RECORDS + 1)]
    found[0] = found[0]._replace(key=b"x")
    assert judged(found).foreign == 2


def test_a_record_seen_before_its_commit_or_without_one_is_told() -> None:
    found = all_of_it()
    found[0] = found[0]._replace(at_ns=COMMITTED_AT_NS)
    found[1] = found[1]._replace(attempt=Attempt("worker0.1", 2))
    assert judged(found) == replace(RIGHT, before_commit=2)


def test_a_reader_who_finds_something_else_at_the_end_is_told() -> None:
    at_end = [one for one in all_of_it() if one.number != 7]
    assert judged(all_of_it(), at_end) == replace(RIGHT, seen_otherwise=1)
