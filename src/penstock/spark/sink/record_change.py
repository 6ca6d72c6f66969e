"""Changes of a sink's record, which every flow makes in the same way. Pure: see `actions`.

The decider's id is fenced and the record read before each attempt to write, so that a record is
never written over one that was not seen. It is read once before that, too: who has nothing to write
takes the id from nobody. If the record is missing, the id is also the last that knows of decisions,
and the next run has to find it as it is (`flows._is_new`).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.spark.sink.actions import Action, Fence, ReadLast, Write, WriteOutcome
from penstock.spark.sink.decision import Claim, SinkRecord
from penstock.spark.sink.errors import Contended, Superseded

T = TypeVar("T")
Flow = Generator[Action, Any, T]

WRITES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who runs a flow. `two_phase`: prepared transactions never time out, and ids come again.
    `gaps`: batches may be left out, by a program that writes some of them only.
    """

    sink: str
    claim: Claim
    two_phase: bool
    gaps: bool = False


def write_record(
    change: Callable[[SinkRecord | None], SinkRecord | None],
    *,
    before: Callable[[], Flow[None]] | None = None,
) -> Flow[SinkRecord]:
    """Changes the sink's record; what it is then. `change` is given the last one, and says None
    where there is nothing to write. `before` may object to what is about to be written.
    """
    record = yield from change_record(change, before=before)
    assert record is not None
    return record


def change_record(
    change: Callable[[SinkRecord | None], SinkRecord | None],
    *,
    before: Callable[[], Flow[None]] | None = None,
) -> Flow[SinkRecord | None]:
    """The same where there may be no record, neither before nor afterwards."""
    last: SinkRecord | None = yield ReadLast()
    if change(last) in (None, last):
        return last
    for _ in range(WRITES_MAX):
        yield Fence()
        last = yield ReadLast()
        record = change(last)
        if record is None or record == last:
            return last
        if before is not None:
            yield from before()
        outcome: WriteOutcome = yield Write(record)
        if outcome is WriteOutcome.WRITTEN:
            return record
    raise Contended(f"the decision could not be written in {WRITES_MAX} attempts")


def superseded(driver: Driver, last: SinkRecord | None) -> Superseded:
    if last is None:
        return Superseded(f"sink {driver.sink}: its claim is gone from the decision topic")
    return Superseded(
        f"sink {driver.sink}: run {last.claim.run_id} of query {last.claim.query_id} has claimed "
        f"it since run {driver.claim.run_id} did"
    )
