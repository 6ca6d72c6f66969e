"""Which ranges go into which task: pure.

A task costs Spark tens of milliseconds whatever it reads, so the small ranges of a topic with many
partitions share tasks. How many tasks there are:

    maxPartitions       at most so many, if the option is given
    otherwise           two for each core that Spark is known to have, and as many more as it takes
                        that no task has more than TASK_RECORDS_MAX records to read
    cores unknown       one for each range
    minPartitions       at least so many: `plan.split` has made the ranges for them
    maxRecordsPerPartition  no task reads more, however many tasks that takes

Invariants: each range is in exactly one task; no task has two ranges of one partition; the ranges
of a task are in the order of their partitions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from penstock.spark.source.plan import ReadRange

TASKS_PER_CORE = 2  # so that a core whose task was short takes another one
TASK_RECORDS_MAX = 1_000_000  # read again from the first when the task fails

TaskRanges = tuple[ReadRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRules:
    tasks_min: int | None = None
    tasks_max: int | None = None
    records_max: int | None = None  # of one task
    cores: int | None = None  # of Spark; None where the number is not known


def tasks_wanted(parts: Sequence[ReadRange], rules: TaskRules) -> int:
    """How many tasks these ranges should be read by; never more than there are ranges."""
    if rules.tasks_max is not None:
        return min(len(parts), rules.tasks_max)
    if rules.cores is None:
        return len(parts)
    records = sum(one.size for one in parts)
    wanted = max(
        TASKS_PER_CORE * rules.cores, -(-records // TASK_RECORDS_MAX), rules.tasks_min or 0
    )
    return min(len(parts), wanted)


def grouped(parts: Sequence[ReadRange], rules: TaskRules) -> list[TaskRanges]:
    """The ranges of each task, with about as many records in each: the largest range first, always
    to the task that has the fewest records. A range that is a part of a partition is a task of
    its own: it was split since it is large.
    """
    wanted = tasks_wanted(parts, rules)
    if wanted == len(parts):
        return [(one,) for one in parts]
    ranges_of = Counter(one.partition for one in parts)
    found: list[list[ReadRange]] = [[one] for one in parts if ranges_of[one.partition] > 1]
    whole = sorted(
        (one for one in parts if ranges_of[one.partition] == 1),
        key=lambda one: (-one.size, one.partition),
    )
    shared: list[list[ReadRange]] = [[] for _ in range(max(1, wanted - len(found)))]
    least = [(0, at) for at in range(len(shared))]
    heapify(least)
    for one in whole:
        records, at = least[0]
        if records and rules.records_max is not None and records + one.size > rules.records_max:
            records, at = 0, len(shared)
            shared.append([])
        else:
            heappop(least)
        heappush(least, (records + one.size, at))
        shared[at].append(one)
    tasks = [tuple(sorted(task, key=_place)) for task in (*found, *shared) if task]
    return sorted(tasks, key=lambda task: _place(task[0]))


def _place(one: ReadRange) -> tuple[str, int, int]:
    return (*one.partition, one.start)
