"""Transactions left open: readers of what is committed do not get past them."""

from penstock.doctor.finding import Command, Finding, fail, finding, unknown, warn
from penstock.doctor.seen import ClusterSeen, Limits, Unseen


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
            mend = Command(verb="transactions abort", names=(one.transactional_id,))
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
