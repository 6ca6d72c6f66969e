"""Offsets are dense: from the log's start to its end each one once, in order; compaction leaves
gaps, and nothing else does.

What was seen or acked at an offset lies there and nowhere else; that, the history itself sees to.
"""

from penstock.sim.errors import Violation
from penstock.sim.history import History
from penstock.sim.reading import FinalLog


def check_offsets(history: History, logs: list[FinalLog]) -> None:
    for log in logs:
        known = history.of(log.partition)
        expected = log.start_offset
        for record in log.records:
            is_next = record.offset == expected
            if not is_next and not (log.compacted and record.offset > expected):
                raise Violation(
                    "offsets", f"{log.partition}: offset {record.offset} where {expected} is next"
                )
            expected = record.offset + 1
        if expected != log.readable_until and not log.compacted:
            raise Violation(
                "offsets",
                f"{log.partition} ends at {log.end_offset}, and its last record is {expected - 1}",
            )
        if log.start_offset < known.deletion_acked:
            raise Violation(
                "offsets",
                f"{log.partition} begins at {log.start_offset}, though all below"
                f" {known.deletion_acked} was deleted",
            )
        if log.start_offset > known.gone_until:
            raise Violation(
                "offsets",
                f"{log.partition} begins at {log.start_offset}, though only what lies below"
                f" {known.gone_until} was deleted or has expired",
            )
