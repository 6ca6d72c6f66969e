"""What sinks have left behind: completed where it is decided, aborted where an operator says so."""

import uuid
from dataclasses import dataclass

from penstock.client.cluster import Cluster
from penstock.client.coordinators import CoordinatorKind, Coordinators
from penstock.client.transaction_listing import (
    OPEN_STATES,
    TransactionDescription,
    Wanted,
    describe_transactions,
    list_transactions,
)
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision import Claim, SinkRecord
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.flows import Driver, recover, take_away
from penstock.spark.sink.names import attempt_of
from penstock.spark.sink.options import TwoPhase
from penstock.spark.sink.trouble import LostTransaction, Superseded
from penstock.spark.sink.two_phase import has_two_phase

OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    sink: str
    batch_id: int
    transactions: int
    lost: LostTransaction | None = None  # what could not be completed, and never will be


async def recover_writes(decisions: DecisionTopic) -> list[Recovered]:
    """Completes what single writes have decided and left."""
    records = await decisions.all()
    return await _recover(decisions, {sink: one for sink, one in records.items() if one.once})


async def recover_all(decisions: DecisionTopic) -> list[Recovered]:
    """The same for all sinks, also those of queries."""
    if not await decisions.exists():
        return []
    return await _recover(decisions, await decisions.all())


async def open_of_sink(cluster: Cluster, sink: str) -> list[TransactionDescription]:
    """What tasks of a sink have open, the oldest first."""
    listed = await list_transactions(cluster, Wanted(states=OPEN_STATES))
    names = [one.transactional_id for one in listed if _is_of(sink, one.transactional_id)]
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    found = (await describe_transactions(coordinators, names)).values()
    described = [one for one in found if isinstance(one, TransactionDescription)]
    return sorted(described, key=lambda one: (one.start_ms or 0, one.transactional_id))


async def end_sink(decisions: DecisionTopic, sink: str) -> None:
    """Completes what the sink has decided and aborts the rest; a run that lives is superseded."""
    claim = Claim(query_id=OPERATOR, run_id=str(uuid.uuid4()))
    await decisions.make()
    two_phase = await has_two_phase(decisions.cluster, sink, TwoPhase.AUTO)
    driver = Driver(sink=sink, claim=claim, two_phase=two_phase)
    async with Carrier(decisions.cluster, sink, decisions, two_phase=two_phase) as carrier:
        await carrier.run(take_away(driver))


def _is_of(sink: str, transactional_id: str) -> bool:
    attempt = attempt_of(transactional_id)
    return attempt is not None and attempt.sink == sink


async def _recover(decisions: DecisionTopic, records: dict[str, SinkRecord]) -> list[Recovered]:
    found = []
    for sink, record in records.items():
        if record.unfinished is None:
            continue
        two_phase = await has_two_phase(decisions.cluster, sink, TwoPhase.AUTO)
        driver = Driver(sink=sink, claim=record.claim, two_phase=two_phase)
        count, lost = 0, None
        async with Carrier(decisions.cluster, sink, decisions, two_phase=two_phase) as carrier:
            try:
                count = await carrier.run(recover(driver))
            except Superseded:
                continue  # whoever claimed it since completes it
            except LostTransaction as trouble:
                lost = trouble
        batch_id = record.unfinished.batch_id
        found.append(Recovered(sink=sink, batch_id=batch_id, transactions=count, lost=lost))
    return found
