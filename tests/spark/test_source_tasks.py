"""Which ranges a task reads: small ones share a task, and each is read once."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import Offset
from penstock.spark.source.plan import ReadRange, split
from penstock.spark.source.tasks import (
    TASK_RECORDS_MAX,
    TASKS_PER_CORE,
    TaskRules,
    grouped,
    tasks_wanted,
)

ID = TopicId(bytes(16))


def of_sizes(*sizes: int) -> list[ReadRange]:
    return [
        ReadRange(
            partition=TopicPartition("t", at), start=Offset(7), end=Offset(7 + size), topic_id=ID
        )
        for at, size in enumerate(sizes)
    ]


counts = st.none() | st.integers(1, 12)


@given(
    st.lists(st.integers(1, 3000), max_size=30),
    counts,
    counts,
    st.none() | st.integers(100, 3000),
    counts,
)
def test_each_range_is_in_one_task_and_no_task_has_a_partition_twice(
    sizes: list[int],
    tasks_min: int | None,
    more: int | None,
    records_max: int | None,
    cores: int | None,
) -> None:
    tasks_max = None if more is None else (tasks_min or 0) + more
    rules = TaskRules(
        tasks_min=tasks_min, tasks_max=tasks_max, records_max=records_max, cores=cores
    )
    parts = split(of_sizes(*sizes), parts_min=tasks_min, records_max=records_max)
    tasks = grouped(parts, rules)
    assert sorted((one for task in tasks for one in task), key=repr) == sorted(parts, key=repr)
    for task in tasks:
        partitions = [one.partition for one in task]
        assert partitions == sorted(set(partitions))
        if records_max is not None:
            assert sum(one.size for one in task) <= records_max
    assert len(tasks) >= min(tasks_min or 0, sum(sizes))
    if tasks_max is not None and records_max is None:
        assert len(tasks) <= tasks_max


def test_two_hundred_small_partitions_take_two_tasks_a_core() -> None:
    tasks = grouped(of_sizes(*[50] * 200), TaskRules(cores=2))
    assert len(tasks) == 2 * TASKS_PER_CORE
    assert {len(task) for task in tasks} == {50}


def test_cores_that_nobody_knows_leave_each_partition_a_task() -> None:
    assert len(grouped(of_sizes(*[50] * 200), TaskRules())) == 200


def test_a_task_is_not_given_more_than_it_should_read_again() -> None:
    parts = of_sizes(*[TASK_RECORDS_MAX // 2] * 40)
    assert tasks_wanted(parts, TaskRules(cores=1)) == 20
    assert tasks_wanted(parts, TaskRules(cores=1, tasks_max=3)) == 3  # unless told


def test_few_partitions_are_not_joined() -> None:
    assert len(grouped(of_sizes(5, 5, 5), TaskRules(cores=2))) == 3


def test_at_least_as_many_tasks_as_asked_for() -> None:
    parts = of_sizes(*[5] * 12)
    assert len(grouped(parts, TaskRules(cores=1, tasks_min=9))) == 9


def test_a_large_range_is_alone_and_the_small_ones_share() -> None:
    tasks = grouped(of_sizes(10, 1000, 10, 10), TaskRules(tasks_max=2))
    assert [[one.partition.partition for one in task] for task in tasks] == [[0, 2, 3], [1]]
