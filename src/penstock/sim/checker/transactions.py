"""A transaction is seen whole or not at all, in order, with its offsets; and no zombie writes.

atomicity            of a committed attempt every record is there, of any other none
transaction order    attempts of one application lie in the order in which they were begun
transaction offsets  committed attempts follow each other without gap or overlap, up to the
                     offset that stands
fencing              after an InitProducerId was answered, no older epoch is in the log
"""

from collections.abc import Mapping

from penstock.log.partition_log import PartitionLog
from penstock.model.identity import TopicPartition
from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog
from penstock.sim.transacting.history import Attempt, TransactionHistory


def check_transactions(
    history: History,
    logs: list[FinalLog],
    offsets: Mapping[str, Mapping[TopicPartition, int]],
) -> None:
    """`logs` as they are seen who read what is committed; `offsets` by group."""
    seen: dict[str, str] = {}
    for log in logs:
        if log.broken_at is not None:
            raise Violation("contents", f"{log.partition} is corrupt at offset {log.broken_at}")
        for record in log.records:
            name = history.see(record).name
            history.transactions.see(name, log.partition, record.offset)
            here = f"{log.partition}@{record.offset}"
            if name in seen:
                raise Violation("duplicates", f"{name} lies at {seen[name]} and at {here}")
            seen[name] = here
        check_order(history.transactions, log.partition, [history.see(r).name for r in log.records])
    for attempt in history.transactions.attempts.values():
        check_atomicity(history.transactions, attempt, frozenset(seen))
    for group, standing in offsets.items():
        check_offsets(history.transactions, group, standing)


def check_atomicity(history: TransactionHistory, attempt: Attempt, seen: frozenset[str]) -> None:
    there = [name for name in attempt.records if name in seen]
    if there and len(there) < len(attempt.records):
        missing = [name for name in attempt.records if name not in seen]
        raise Violation("atomicity", f"of {attempt.name} {there} are there, and {missing} are not")
    if attempt.committed is True and not there:
        raise Violation("atomicity", f"{attempt.name} was committed, and is not there")
    decision = history.decisions.get((attempt.transactional_id, attempt.identity))
    if decision is not None and decision != bool(there):
        raise Violation(
            "atomicity", f"{attempt.name}: the database says {decision}, and the log {bool(there)}"
        )
    attempt.committed = bool(there)


def check_order(history: TransactionHistory, place: TopicPartition, names: list[str]) -> None:
    places = {name: number for number, name in enumerate(history.attempts)}
    latest: dict[str, tuple[int, int, str]] = {}
    for name in names:
        attempt_name, _, number = name.rpartition("/")
        attempt = history.attempts.get(attempt_name)
        if attempt is None:
            continue
        here = places[attempt_name], int(number), name
        before = latest.get(attempt.transactional_id)
        if before is not None and here < before:
            raise Violation("transaction order", f"{place}: {name} lies behind {before[2]}")
        latest[attempt.transactional_id] = here


def check_offsets(
    history: TransactionHistory, group: str, standing: Mapping[TopicPartition, int]
) -> None:
    reached: dict[TopicPartition, int] = {}
    for attempt in history.attempts.values():
        if attempt.transactional_id != group or not attempt.committed:
            continue
        for place, (start, until) in attempt.inputs.items():
            before = reached.get(place, 0)
            if start != before:
                raise Violation(
                    "transaction offsets",
                    f"{attempt.name} has read {place} from {start} on, where {before} was reached",
                )
            reached[place] = until
    for place in sorted({*reached, *standing}):
        if reached.get(place, 0) != standing.get(place, 0):
            raise Violation(
                "transaction offsets",
                f"{group} has {standing.get(place, 0)} for {place}, and what it has committed"
                f" reaches {reached.get(place, 0)}",
            )


def check_fencing(history: TransactionHistory, logs: Mapping[TopicPartition, PartitionLog]) -> None:
    for place, log in sorted(logs.items()):
        for batch in log.batches_from(log.start_offset):
            if batch.is_control or not batch.is_transactional:
                continue
            for fence in history.fences:
                end = fence.ends.get(place)
                if (
                    end is not None
                    and batch.base_offset >= end
                    and batch.producer_id == fence.identity.producer_id
                    and batch.producer_epoch < fence.identity.epoch
                ):
                    raise Violation(
                        "fencing",
                        f"{place}: a batch of epoch {batch.producer_epoch} at {batch.base_offset},"
                        f" though epoch {fence.identity.epoch} was given out when the log ended at"
                        f" {end}",
                    )
