"""Transactions left open: readers of what is committed do not get past them.

An open transaction may be decided already: in two-phase commit that is known outside of the
cluster, and to a sink of Spark in its topic of decisions. To abort it is to lose its records then.
"""

import re

from penstock.client.admin.transaction_listing import TransactionDescription
from penstock.doctor.finding import Advice, Command, Finding, Mend, fail, finding, unknown, warn
from penstock.doctor.seen import ClusterSeen, Limits, Unseen

# <sink>.<run>.<partition>.<stage attempt>.<attempt>.<batch>, as penstock.spark.sink.names has it.
# The sink of a single write is write-<run>.
OF_SINK = re.compile(r"(?P<sink>.+)\.(?P<run>[^.]*)(?:\.\d+){4}", re.DOTALL)

END_QUERY = (
    "start its query again, or commit what it has decided by `penstock transactions recover` (each"
    " command with --decision-topic if the sink has one of its own); if it is given up"
)
END_WRITE = (
    "if its program has ended, commit what it has decided by `penstock transactions recover` (each"
    " command with --decision-topic if the write has one of its own), and abort what is still open"
    " then, by its id if this finds no record of the write"
)


def transactions(seen: ClusterSeen, limits: Limits) -> Finding:
    faults = []
    if isinstance(seen.transactions, Unseen):
        faults.append(unknown(seen.transactions.reason))
    else:
        for one in seen.transactions:
            if one.start_ms is None or not one.is_ongoing:
                continue
            age_ms = seen.at_ms - one.start_ms
            if age_ms <= limits.transaction_ms_max:
                continue
            mend = _end(one)
            age = f"{one.transactional_id} has been open for {age_ms // 1000:,} s"
            if one.timeout_ms is None:
                faults.append(fail(f"{age}, in two-phase commit: nothing times it out", mend))
            else:
                faults.append(warn(age, mend))
    if isinstance(seen.hanging, Unseen):
        faults.append(unknown(seen.hanging.reason))
    else:
        for suspect in seen.hanging:
            place, start = suspect.open.partition, suspect.open.start_offset
            mend = Command(
                verb="transactions abort",
                options=(
                    "--topic",
                    f"{place.topic}:{place.partition}",
                    "--start-offset",
                    str(start),
                ),
            )
            faults.append(fail(f"{place}: one from offset {start} on that nobody will end", mend))
    return finding(
        "transactions",
        faults,
        passed=f"none is open for more than {limits.transaction_ms_max / 1000:g} s",
    )


def sink_of(transactional_id: str) -> str | None:
    """The sink of Spark that writes under this id; None: none does."""
    found = OF_SINK.fullmatch(transactional_id)
    return None if found is None else found["sink"]


def _end(one: TransactionDescription) -> Mend:
    of_sink = OF_SINK.fullmatch(one.transactional_id)
    if of_sink is not None:
        sink = of_sink["sink"]
        advice = END_WRITE if sink == f"write-{of_sink['run']}" else END_QUERY
        command = Command(verb="transactions abort", options=("--sink", sink))
        return Advice(text=advice, command=command)
    command = Command(verb="transactions abort", names=(one.transactional_id,))
    if one.timeout_ms is None:
        advice = "its external coordinator is to end it; if that has given it up"
        return Advice(text=advice, command=command)
    return command
