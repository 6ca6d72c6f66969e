"""What is asked of the coordinators of transactional ids: one function for each request.

Each asks until there is a verdict (see `transaction_answers`), or until time is up; the coordinator
may move, load or be away meanwhile. All of them may be asked again: a coordinator knows a retry by
the identity that comes with it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.client.consume.group_offsets import Committed, Committer
from penstock.client.network.coordinators import LOST, CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError, Refused, Unreachable, error_code
from penstock.client.produce.accumulator import MARKERS_MS
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction_answers import (
    NOT_YET,
    Answer,
    Asked,
    Asking,
    Verdict,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.state import Identity
from penstock.wire.definition import Message
from penstock.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

AnyReply = TypeVar("AnyReply", bound=Message)

TWO_PHASE_VERSION = 6  # of InitProducerId
CLIENTS_VERSION_MAX = 3  # of AddPartitionsToTxn: later ones are for brokers among themselves
END_VERSIONS = {Generation.ONE: (0, 4), Generation.TWO: (5, None)}
OFFSETS_VERSIONS = {Generation.ONE: (0, 4), Generation.TWO: (5, None)}
BACKOFF_DOUBLINGS_MAX = 4
TRANSACTION_VERSION = "transaction.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """How a producer takes a transactional id over."""

    timeout_ms: int = 60_000  # of its transactions, unless they are two-phase
    two_phase: bool = False
    keep_prepared: bool = False
    held: Identity | None = None  # what it has, and trades in


def generation_of(coordinators: Coordinators) -> Generation:
    """What the cluster has agreed on, as far as is known."""
    level = coordinators.cluster.features.levels.get(TRANSACTION_VERSION, 0)
    return Generation.TWO if level >= Generation.TWO else Generation.ONE


async def claim_id(
    coordinators: Coordinators, transactional_id: str, claim: Claim, *, wait_ms: int
) -> Answer:
    """InitProducerId: whoever had the id is fenced, and his transaction aborted or kept."""
    held = claim.held
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=claim.timeout_ms,
        producer_id=-1 if held is None else held.producer_id,
        producer_epoch=-1 if held is None else held.epoch,
        enable2_pc=claim.two_phase,
        keep_prepared_txn=claim.keep_prepared,
    )
    is_two_phase = claim.two_phase or claim.keep_prepared
    answer, reply = await _ask(
        coordinators,
        transactional_id,
        request,
        InitProducerIdResponse,
        asked=Asked.IDENTITY,
        code_of=lambda reply: reply.error_code,
        versions=(TWO_PHASE_VERSION if is_two_phase else 0, None),
        wait_ms=wait_ms,
    )
    if answer.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and is_two_phase:
        return replace(answer, error=_two_phase_refused(transactional_id))
    if reply is None or answer.verdict is not Verdict.DONE:
        return answer
    return replace(
        answer,
        identity=_identity(reply.producer_id, reply.producer_epoch),
        ongoing=_identity(reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch),
    )


async def add_partitions(
    coordinators: Coordinators,
    transactional_id: str,
    identity: Identity,
    partitions: Iterable[TopicPartition],
    *,
    wait_ms: int,
) -> Answer:
    """AddPartitionsToTxn, of a producer of generation 1."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=list(topics.values()),
    )
    answer, _ = await _ask(
        coordinators,
        transactional_id,
        request,
        AddPartitionsToTxnResponse,
        asked=Asked.PARTITIONS,
        code_of=_partitions_code,
        versions=(0, CLIENTS_VERSION_MAX),
        wait_ms=wait_ms,
    )
    return answer


async def add_offsets(
    coordinators: Coordinators,
    transactional_id: str,
    identity: Identity,
    group: str,
    *,
    wait_ms: int,
) -> Answer:
    """AddOffsetsToTxn, of a producer of generation 1."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group,
    )
    answer, _ = await _ask(
        coordinators,
        transactional_id,
        request,
        AddOffsetsToTxnResponse,
        asked=Asked.PARTITIONS,
        code_of=lambda reply: reply.error_code,
        wait_ms=wait_ms,
    )
    return answer


async def commit_offsets_in(
    group_coordinators: Coordinators,
    transactional_id: str,
    identity: Identity,
    generation: Generation,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    member: Committer,
    *,
    wait_ms: int,
) -> Answer:
    """TxnOffsetCommit: it is the group's coordinator that is asked."""
    assert group_coordinators.kind is CoordinatorKind.GROUP
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, index), committed in offsets.items():
        epoch = committed.leader_epoch
        topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name)).partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if epoch is None else epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )
    answer, _ = await _ask(
        group_coordinators,
        group,
        request,
        TxnOffsetCommitResponse,
        asked=Asked.OFFSETS,
        code_of=_offsets_code,
        versions=OFFSETS_VERSIONS[generation],
        wait_ms=wait_ms,
    )
    return answer


async def end_transaction(
    coordinators: Coordinators,
    transactional_id: str,
    identity: Identity,
    generation: Generation,
    *,
    commit: bool,
    wait_ms: int,
) -> Answer:
    """EndTxn. It may be asked again and again: the answer is the same."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    answer, reply = await _ask(
        coordinators,
        transactional_id,
        request,
        EndTxnResponse,
        asked=Asked.COMMIT if commit else Asked.ABORT,
        code_of=lambda reply: reply.error_code,
        versions=END_VERSIONS[generation],
        wait_ms=wait_ms,
    )
    if reply is None or answer.verdict is not Verdict.DONE:
        return answer
    return replace(answer, identity=_identity(reply.producer_id, reply.producer_epoch))


async def _ask(
    coordinators: Coordinators,
    key: str,
    request: Message,
    reply_type: type[AnyReply],
    *,
    asked: Asked,
    code_of: Callable[[AnyReply], int],
    wait_ms: int,
    versions: tuple[int, int | None] = (0, None),
) -> tuple[Answer, AnyReply | None]:
    """Until there is a verdict or time is up; a reply comes with the verdict that it gave."""
    cluster = coordinators.cluster
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms
    asking = Asking(asked=asked)
    attempt = 0
    while True:
        left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
        reply: AnyReply | None = None
        code: ErrorCode | None = None
        sent = True
        error: ClientError
        try:
            reply = await coordinators.ask_once(
                key,
                request,
                reply_type,
                answer_ms_max=min(left_ms, cluster.rules.request_ms_max),
                version_min=versions[0],
                version_max=versions[1],
            )
            code = error_code(code_of(reply))
            error = Refused(code, coordinators.about(key))
        except LOST as lost:
            error, sent = lost, not isinstance(lost, Unreachable)
        except Refused as not_found:
            error, code, sent = not_found, not_found.code, False
        found = asking.heard(code, sent=sent)
        if found is Verdict.ELSEWHERE:
            coordinators.forget(key)
        is_late = cluster.clock.monotonic_ms() >= deadline_ms
        if is_late or found not in NOT_YET:
            why = None if found is Verdict.DONE else error
            return Answer(verdict=found, error=why, code=code, in_doubt=asking.in_doubt), reply
        await asyncio.sleep(_backoff_ms(code, attempt, cluster.rules.backoff_ms) / 1000)
        attempt += 1


def _backoff_ms(code: ErrorCode | None, attempt: int, backoff_ms: int) -> int:
    if code == ErrorCode.CONCURRENT_TRANSACTIONS:
        return min(backoff_ms, MARKERS_MS)
    return backoff_ms << min(attempt, BACKOFF_DOUBLINGS_MAX)


def _partitions_code(reply: AddPartitionsToTxnResponse) -> int:
    """All are added or none: what kept one of them out speaks for all."""
    codes = [
        result.partition_error_code
        for topic in reply.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    telling = [
        code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
    ]
    return next(iter(telling), max(codes, default=ErrorCode.NONE))


def _offsets_code(reply: TxnOffsetCommitResponse) -> int:
    """What kept one of them out spoils the transaction: it speaks for all."""
    codes = [told.error_code for topic in reply.topics for told in topic.partitions]
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


def _identity(producer_id: int, epoch: int) -> Identity | None:
    return None if producer_id < 0 else Identity(ProducerId(producer_id), ProducerEpoch(epoch))


def _two_phase_refused(transactional_id: str) -> Refused:
    return Refused(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        f"transactional id {transactional_id}",
        "two-phase commit is not allowed: the broker's setting"
        " transaction.two.phase.commit.enable is off, or this id may not use it",
    )
