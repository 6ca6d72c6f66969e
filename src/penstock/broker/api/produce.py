"""Produce: batches into partitions, in one step without an `await` each.

    unknown, not led here        error of that partition
    bad batch, gap, fenced       error of that partition, nothing written
    duplicate                    as the batch that was written; DUPLICATE_SEQUENCE_NUMBER, which
                                 clients take for an ack, where its offset is not remembered
    acks=1                       reply at once, or once the batch is synced where that is asked
    acks=all                     reply once the high watermark has passed the batch
    acks=0                       no reply; an error closes the connection: its sender notices that

A reply that waits for acks is told by a queue of its partition (`broker/request/produce_acks`).
What is written in a transaction is verified first (`broker/coordinators/verification`).

Copies: none here. The batch is checked, numbered and written where the connection received it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from penstock.broker.coordinators import verification
from penstock.broker.coordinators.verification import TOPIC_IDS_FROM, Unverified, Verification
from penstock.broker.coordinators.verified_turns import Turn
from penstock.broker.partitions.waiting import is_acked
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply, when_filled
from penstock.broker.request.produce_acks import CURRENT_LEADER_FROM, ProduceAcks, SingleAck
from penstock.broker.request.produce_refusals import (
    close_on_error,
    name_leaders,
    refuse,
    refuse_unverified_writer,
    refuse_version,
    refused,
    refused_append,
    refused_batch,
)
from penstock.broker.request.services import Services
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.model.offset import NO_OFFSET
from penstock.records.errors import InvalidBatch
from penstock.replication.ack_queue import AckQueue
from penstock.replication.guard import Guard
from penstock.replication.leader import Refusal
from penstock.replication.partition import Appended, Partition
from penstock.security.acl.authorizer import Access
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.transactions.enlist import Enlisted
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.codec import Buffer
from penstock.wire.header import RequestHeader, encode_response
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.wire.single_produce import (
    SingleProduce,
    client_id_of,
    encode_single_ack,
    read_single_produce,
    transactional_id_of,
)
from penstock.world.errors import DiskError

if TYPE_CHECKING:  # nothing of it is loaded by a node that exports no traces
    from penstock.broker.request.request_tracing import RequestTrace

EMPTY: Final = b""
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
BATCHES_FROM: Final = 3
EARLIER_WAIT: Final = "what the producer sent before is still being verified"
ZSTD_FROM: Final = 7


def handle(
    services: Services, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse] | PendingReply | None:
    version = context.header.api_version
    if version < BATCHES_FROM:
        refuse_version(version, has_reply=request.acks != ACKS_NONE)
    if request.transactional_id is None:
        return _produce(services, request, context, None)
    verified = verification.begin(services.partitions, request, version=version)
    verify_only = version < verification.ADDS_FROM
    settings = services.settings.transactions
    if verified.asked and (settings.transaction_partition_verification_enable or not verify_only):
        answer = verification.ask(
            services.transactions,
            verified,
            transactional_id=request.transactional_id,
            verify_only=verify_only,
        )
        assert verified.producer is not None
        producer_id = verified.producer.producer_id
        if isinstance(answer, asyncio.Future) or producer_id in services.verified_turns.last:
            if request.acks == ACKS_NONE:
                verified.release()
                if isinstance(answer, asyncio.Future):
                    answer.cancel()
                raise CloseConnection("a transaction is written with acks")
            turn = Turn(services.verified_turns, producer_id, release=verified.release)
            trace = None if services.tracing is None else services.tracing.begin_late()
            return _produce_in_turn(
                services, _kept(request), context, verified, answer, turn, trace
            )
        verification.note(verified, answer, version=version)
    try:
        return _produce(services, request, context, verified)
    finally:
        verified.release()


async def _produce_in_turn(
    services: Services,
    request: ProduceRequest,
    context: RequestContext,
    verified: Verification,
    answer: Enlisted | RequestError | asyncio.Future[Any],
    turn: Turn,
    trace: "RequestTrace | None",
) -> ProduceResponse:
    """Once it is verified, and what the producer sent before it is appended. The client waits for
    its request's time-out: after that it has given up, and a late append would be a surprise.
    """
    try:
        clock = services.world.clock
        if isinstance(answer, asyncio.Future):
            waited_ms = clock.monotonic_ms() - context.received_ms
            answer = await verification.outcome_of(answer, wait_ms=request.timeout_ms - waited_ms)
        if turn.earlier is not None:
            waited_ms = clock.monotonic_ms() - context.received_ms
            if not await turn.has_come(wait_ms=request.timeout_ms - waited_ms):
                raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, EARLIER_WAIT)
        verification.note(verified, answer, version=context.header.api_version)
        if trace is not None:
            trace.verified_us = clock.monotonic_us()
        response = _produce(services, request, context, verified, encoded=False, late=trace)
        if trace is not None:
            trace.appended_us = clock.monotonic_us()
    finally:
        turn.end()
    if isinstance(response, ProduceAcks):
        await when_filled(response)
        response = response.response
    assert response is not None, "transactions are written with acks of all"
    return response


def _kept(request: ProduceRequest) -> ProduceRequest:
    """The request with batches of its own: those received are overwritten by the next request."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None if data.records is None else bytearray(data.records)
    return request


def _produce(
    services: Services,
    request: ProduceRequest,
    context: RequestContext,
    verified: Verification | None,
    *,
    encoded: bool = True,
    late: "RequestTrace | None" = None,
) -> ProduceResponse | ProduceAcks | None:
    """`encoded`: the reply that waits for acks is sent as it is filled. `late`: the trace of a
    request that has waited before this.
    """
    version = context.header.api_version
    acks = request.acks
    partitions = services.partitions
    tracing = services.tracing
    now_ms = services.world.clock.now_ms()
    wrong_leader = False
    waiting: ProduceAcks | None = None
    deadline_ms = context.received_ms + request.timeout_ms
    responses: list[TopicProduceResponse] = []
    for topic in _each_once(request.topic_data):
        answers: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            if version >= TOPIC_IDS_FROM:
                found = partitions.find_by_id(topic.topic_id, data.index)
            else:
                found = partitions.find(topic.name, data.index)
            if not isinstance(found, Partition):
                wrong_leader = wrong_leader or found == ErrorCode.NOT_LEADER_OR_FOLLOWER
                answers.append(refused(data.index, found))
            elif found.is_internal:
                # Its coordinator knows all that is in it, because nobody else writes there.
                answers.append(refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION))
            elif not ACKS_ALL <= acks <= ACKS_LEADER:
                answers.append(refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS))
            else:
                outcome = _append(
                    services,
                    found,
                    data.index,
                    data.records,
                    acks=acks,
                    version=version,
                    now_ms=now_ms,
                    guard=None if verified is None else verified.outcome(found.name),
                )
                if isinstance(outcome, Refusal):
                    outcome = refused_append(data.index, outcome, found, context.header)
                if not isinstance(outcome, Appended):
                    found.traffic.failed_produces += 1
                    if request.transactional_id is None:
                        refuse_unverified_writer(outcome, data.records)
                answer = _answer(outcome, data.index, found)
                answers.append(answer)
                if isinstance(outcome, Appended):
                    if tracing is not None and tracing.is_sampled(found, outcome):
                        tracing.note(
                            found,
                            outcome,
                            data.records,
                            context.header,
                            acks=acks,
                            answer=answer,
                            late=late,
                        )
                    queue = _queue(services, found, outcome, acks=acks)
                    if queue is not None:
                        if waiting is None:
                            waiting = ProduceAcks(
                                services,
                                header=context.header if encoded else None,
                                version=version,
                                listener=context.listener,
                            )
                        waiting.wait_for(answer, queue, outcome.end_offset, deadline_ms=deadline_ms)
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if acks == ACKS_NONE:
        close_on_error(responses)
        return None
    response = ProduceResponse(responses=responses)
    if wrong_leader and version >= CURRENT_LEADER_FROM:
        name_leaders(services, response, listener=context.listener)
    if waiting is not None and waiting.begin(response):
        return waiting
    return response


def answer_single(
    services: Services,
    frame: memoryview,
    listener: str,
    received_ms: int,
    access: Access | None = None,
) -> bytes | SingleAck | None:
    """A produce of one batch to one partition, from bytes to bytes; None for any other.

    The rules are those of `handle`: whatever needs more than an ack is left to it, and what went
    wrong is told in its words.
    """
    request = read_single_produce(frame)
    if request is None:
        return None
    version, correlation_id, acks, topic, index, records, transactional, timeout_ms = request
    if version >= TOPIC_IDS_FROM:
        found = services.partitions.find_by_id(topic, index)
    else:
        try:
            found = services.partitions.find(topic.decode(), index)
        except UnicodeDecodeError:
            return None
    if not isinstance(found, Partition) or found.is_internal:
        return None
    if acks not in (ACKS_LEADER, ACKS_ALL):
        return None
    if access is not None:
        if not access.may_write(found.name.topic):
            return None
        if transactional and not _may_transact(access, frame):
            return None
    if transactional and not verification.is_open(found, records):
        return None
    outcome = _append(
        services,
        found,
        index,
        records,
        acks=acks,
        version=version,
        now_ms=services.world.clock.now_ms(),
        guard=verification.IS_OPEN if transactional else None,
    )
    if isinstance(outcome, Appended):
        if outcome.base_offset == NO_OFFSET:
            answer = _answer(outcome, index, found)
            if services.request_stats is not None:
                services.request_stats.note_error(ApiKey.PRODUCE, answer.error_code)
            ack = _encode_single(request, answer)
        else:
            ack = encode_single_ack(
                request,
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.log_append_time_ms,
                start_offset=found.log.start_offset,
            )
        tracing = services.tracing
        if tracing is not None and tracing.is_sampled(found, outcome):
            header = RequestHeader(ApiKey.PRODUCE, version, correlation_id, client_id_of(frame))
            tracing.note(found, outcome, records, header, acks=acks)
        queue = _queue(services, found, outcome, acks=acks)
        if queue is None:
            return ack
        return SingleAck(
            services,
            queue,
            outcome.end_offset,
            ack=ack,
            version=version,
            listener=listener,
            deadline_ms=received_ms + timeout_ms,
        )
    if isinstance(outcome, Refusal):
        header = RequestHeader(ApiKey.PRODUCE, version, correlation_id, client_id_of(frame))
        outcome = refused_append(index, outcome, found, header)
    found.traffic.failed_produces += 1
    if not transactional:
        refuse_unverified_writer(outcome, records)
    if services.request_stats is not None:
        services.request_stats.note_error(ApiKey.PRODUCE, outcome.error_code)
    return _encode_single(request, outcome)


def _encode_single(request: SingleProduce, outcome: PartitionProduceResponse) -> bytes:
    """What `encode_single_ack` has no room for."""
    version, correlation_id, _, topic, *_ = request
    answer = TopicProduceResponse(partition_responses=[outcome])
    if version >= TOPIC_IDS_FROM:
        answer.topic_id = topic
    else:
        answer.name = topic.decode()
    [reply] = encode_response(correlation_id, ProduceResponse(responses=[answer]), version)
    assert isinstance(reply, bytes)
    return reply


def _may_transact(access: Access, frame: memoryview) -> bool:
    name = transactional_id_of(frame)
    return access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _queue(
    services: Services, partition: Partition, appended: Appended, *, acks: int
) -> AckQueue | None:
    """The queue that tells when a batch is acked as was asked; None when it is."""
    if partition.commits_at_once:
        return None
    if partition.wants_sync:
        services.partitions.want_sync(partition)
    all_acks = acks == ACKS_ALL
    if acks == ACKS_NONE or is_acked(partition, appended.end_offset, all_acks=all_acks):
        return None
    return partition.acks if all_acks else partition.leader_acks


def _append(
    services: Services,
    partition: Partition,
    index: int,
    records: Buffer | None,
    *,
    acks: int,
    version: int,
    now_ms: int,
    guard: Guard | Unverified | None,
) -> Appended | Refusal | PartitionProduceResponse:
    """What was appended, or why nothing was, as a reply unless the leader refused it."""
    data = records if isinstance(records, memoryview) else memoryview(records or EMPTY)
    if isinstance(guard, Unverified):
        partition.note_refused(data, guard.code, now_ms=now_ms)
        return refused(index, guard.code, guard.message)
    try:
        return partition.append(
            data,
            all_acks=acks == ACKS_ALL,
            zstd_allowed=version >= ZSTD_FROM,
            now_ms=now_ms,
            guard=guard,
        )
    except InvalidBatch as error:
        return refused_batch(index, error, partition)
    except DiskError as error:
        services.partitions.append_failed(partition, error)
        return refused(index, ErrorCode.KAFKA_STORAGE_ERROR, error.reason)


def _each_once(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """Of a partition named twice the last batch counts, as in Kafka."""
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return topics
    last: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    count = 0
    for topic in topics:
        count += len(topic.partition_data)
        known = last.setdefault((topic.name, topic.topic_id), {})
        known.update((data.index, data) for data in topic.partition_data)
    if len(last) == len(topics) and sum(map(len, last.values())) == count:
        return topics
    return [
        TopicProduceData(name=name, topic_id=topic_id, partition_data=list(known.values()))
        for (name, topic_id), known in last.items()
    ]


def _answer(
    outcome: Appended | PartitionProduceResponse, index: int, partition: Partition
) -> PartitionProduceResponse:
    if isinstance(outcome, PartitionProduceResponse):
        return outcome
    if outcome.base_offset == NO_OFFSET:
        return refused(index, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    return PartitionProduceResponse(
        index=index,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=partition.log.start_offset,
    )


API = Api(
    key=ApiKey.PRODUCE,
    versions=VersionRange(0, 13),
    request=ProduceRequest,
    handle=handle,
    refuse=refuse,
    shortcut=answer_single,
)
