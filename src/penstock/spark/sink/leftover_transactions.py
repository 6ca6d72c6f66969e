"""What sinks have left behind: completed where it is decided, aborted where an operator says so."""

import logging
import uuid
from dataclasses import dataclass

from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.admin.transaction_listing import (
    OPEN_STATES,
    TransactionDescription,
    Wanted,
    describe_transactions,
    list_transactions,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError, Refused
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.spark.sink import single_writes
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.completion import lost_of, mark_done, recover
from penstock.spark.sink.decision import Claim, Decided, SinkRecord
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.errors import (
    LostTransaction,
    SinkError,
    Superseded,
    UnknownDecisions,
)
from penstock.spark.sink.flows import take_away
from penstock.spark.sink.names import attempt_of, decider_id, run_of, single_write_sink
from penstock.spark.sink.options import TwoPhase
from penstock.spark.sink.record_change import Driver
from penstock.spark.sink.two_phase import has_two_phase

OPERATOR = "operator"
EXPIRATION = "transactional.id.expiration.ms"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    sink: str
    batch_id: int
    transactions: int
    lost: LostTransaction | None = None  # what could not be completed, and never will be


async def recover_writes(decisions: DecisionTopic) -> None:
    """Completes what single writes have decided and left. Trouble with one is not the trouble of
    whoever comes by: it is logged, and told by `recover_all`.
    """
    for sink, record in (await decisions.left_writes()).items():
        assert record.unfinished is not None
        try:
            recovered = await _recover(decisions, sink, record, record.unfinished)
        except (SinkError, ClientError) as error:
            logger.warning("sink=%s: its write is not completed: %s", sink, error)
            continue
        if recovered is not None and recovered.lost is not None:
            logger.warning("%s", recovered.lost)


async def recover_all(decisions: DecisionTopic) -> list[Recovered]:
    """The same for all sinks, also those of queries."""
    if not await decisions.exists():
        return []
    found = []
    for sink, record in (await decisions.all()).items():
        if record.unfinished is not None:
            found.append(await _recover(decisions, sink, record, record.unfinished))
    return [one for one in found if one is not None]


async def open_of_sink(cluster: Cluster, sink: str) -> list[TransactionDescription]:
    """What tasks of a sink have open, the oldest first."""
    listed = await list_transactions(cluster, Wanted(states=OPEN_STATES))
    names = [one.transactional_id for one in listed if _is_of(sink, one.transactional_id)]
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    found = (await describe_transactions(coordinators, names)).values()
    described = [one for one in found if isinstance(one, TransactionDescription)]
    return sorted(described, key=lambda one: (one.start_ms or 0, one.transactional_id))


async def end_sink(decisions: DecisionTopic, sink: str) -> LostTransaction | None:
    """Completes what the sink has decided and aborts the rest; a run that lives is superseded. What
    was decided and is lost is told, and is no longer in the way of the sink. UnknownDecisions, and
    nothing is changed, where the decisions of the sink may be in another topic.
    """
    claim = Claim(query_id=OPERATOR, run_id=str(uuid.uuid4()))
    checked = await _check_decisions(decisions, sink)
    two_phase = await has_two_phase(decisions.cluster, sink, TwoPhase.AUTO)
    driver = Driver(sink=sink, claim=claim, two_phase=two_phase)
    async with Carrier(decisions.cluster, sink, decisions, two_phase=two_phase) as carrier:
        record, lost = await carrier.run(take_away(driver, checked))
        told = None
        if lost:
            assert record.unfinished is not None
            told = lost_of(sink, record.unfinished, lost)
        try:
            await carrier.run(mark_done(driver, record))
        except (SinkError, ClientError) as error:
            # It may be done by now, and then nobody tells of the loss again.
            if told is not None:
                raise told from error
            raise
    return told


async def is_unfinished(decisions: DecisionTopic, sink: str) -> bool:
    """Whether a sink has decided something and not carried it out."""
    if not await decisions.exists():
        return False
    record = (await decisions.last(sink)).record
    return record is not None and record.unfinished is not None


async def _check_decisions(decisions: DecisionTopic, sink: str) -> frozenset[str]:
    """The transactions that the sink has open, none of them decided in another topic.

    Runs claim a sink before they write, so what a topic does not tell of a run is elsewhere. That
    holds for a topic without a record of the sink even if nothing is open now: a batch may have
    ended just before, and the next one begins. Only a single write makes no claim: it has decided
    nothing as long as it has no decider.
    """
    if not await decisions.exists():
        raise UnknownDecisions(
            f"topic {decisions.name} does not exist, and sink {sink} may have decided what it has"
            " open: name its decision topic with --decision-topic"
        )
    await decisions.make()  # refuses one that is no decision topic
    found = await open_of_sink(decisions.cluster, sink)
    # Read after the list was made, it tells of every run on that list, also of the newest.
    record = (await decisions.last(sink)).record
    known = frozenset[str]() if record is None else record.run_ids
    unknown = [one for one in found if run_of(one.transactional_id) not in known]
    is_told = record is not None and not unknown
    if not is_told and not await _is_undecided(decisions.cluster, sink, unknown):
        if record is None and unknown and _is_single_write(sink, unknown[0].transactional_id):
            raise UnknownDecisions(
                f"topic {decisions.name} has no record of sink {sink}: a single write has none"
                " before it is decided, and none when it is complete or was given up; if its"
                " program has ended, run `penstock transactions recover`, with --decision-topic if"
                " it had option decisionTopic: what is still open then is not decided, abort it by"
                " its id"
            )
        of_run = f"run {run_of(unknown[0].transactional_id)} of " if unknown else ""
        raise UnknownDecisions(
            f"topic {decisions.name} does not tell of {of_run}sink {sink}, which may have decided"
            " what it has open: name the sink's decision topic with --decision-topic; if that is"
            " lost, abort the transactions by their ids"
        )
    return frozenset(one.transactional_id for one in found)


def _is_single_write(sink: str, transactional_id: str) -> bool:
    run_id = run_of(transactional_id)
    return run_id is not None and sink == single_write_sink(run_id)


async def _is_undecided(cluster: Cluster, sink: str, found: list[TransactionDescription]) -> bool:
    """Whether nobody has decided since these began: brokers would know the decider's id still."""
    decider = decider_id(sink)
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    described = (await describe_transactions(coordinators, [decider]))[decider]
    if isinstance(described, TransactionDescription):
        return False
    if described.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise described
    known_ms = await _ids_known_ms(cluster)
    now_ms = cluster.clock.now_ms()
    age_ms = now_ms - min((one.start_ms or 0 for one in found), default=now_ms)
    return known_ms is not None and age_ms < known_ms


async def _ids_known_ms(cluster: Cluster) -> int | None:
    """How long brokers remember an id that is not used; None: they do not tell."""
    node = min((await cluster.refresh(())).brokers)
    resource = Resource(ResourceKind.BROKER, str(node))
    entries = (await describe_configs(cluster, [resource], names=[EXPIRATION]))[resource]
    if isinstance(entries, Refused):
        return None
    told = (entry.value for entry in entries if entry.name == EXPIRATION)
    return next((int(value) for value in told if value is not None), None)


def _is_of(sink: str, transactional_id: str) -> bool:
    attempt = attempt_of(transactional_id)
    return attempt is not None and attempt.sink == sink


async def _recover(
    decisions: DecisionTopic, sink: str, record: SinkRecord, decided: Decided
) -> Recovered | None:
    """None: whoever has claimed the sink since completes it."""
    driver = Driver(sink=sink, claim=record.claim, two_phase=decided.two_phase)
    count, lost = 0, None
    two_phase = decided.two_phase
    async with Carrier(decisions.cluster, sink, decisions, two_phase=two_phase) as carrier:
        try:
            count = await carrier.run(
                single_writes.recover(driver, record) if record.once else recover(driver)
            )
        except Superseded:
            return None
        except LostTransaction as error:
            lost = error
    return Recovered(sink=sink, batch_id=decided.batch_id, transactions=count, lost=lost)
