"""Fetch: batches out of partitions, as ranges of files that no Python ever reads.

A fetch is read once at once. When that gives fewer than `min_bytes`, and neither an error nor
anything else that its sender should know now, it waits, for as long as `max_wait_ms`, until
enough has become visible, and is read again: what it knew before the wait is old, except of
partitions that had nothing to give and of which nobody was told anything since. Rights that have
changed meanwhile count at once, unlike in Apache Kafka, where those of its arrival do.
Followers are served by `broker/request/follower_fetch`; what follows here is for consumers. They
read from leaders, and since version 11 from followers too, up to what these know to be committed; a
leader may send a consumer to a follower in its own rack (KIP-392).
Sessions (`replication/fetch_session`) decide which partitions a request is about and which
answers are news. Cost is per partition, never per batch or record; partitions of a session that
have nothing new cost no answer object.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.waiting import DataWaiter
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.fetch_answers import (
    EMPTY,
    diverged,
    failed,
    name_leaders,
    redirected,
)
from penstock.broker.request.follower_by_bytes import answer_follower
from penstock.broker.request.follower_by_message import follower_of, serve_follower
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import Services
from penstock.log.errors import CorruptData
from penstock.log.reading import LogSlice
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, TopicId, TopicPartition
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.model.offset import Offset
from penstock.model.settings.replication import RACK_AWARE_SELECTOR
from penstock.replication.fetch_session import Fetch, Wanted
from penstock.replication.leader import check_leader_epoch
from penstock.replication.partition import Partition
from penstock.replication.read_replica import nearer_follower
from penstock.replication.replica import Replica
from penstock.security.acl.authorizer import Access
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.world.errors import DiskError
from penstock.world.ports import FileRange

READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
TOPIC_IDS_FROM: Final = 13
STORAGE_ERROR_FROM: Final = 6
ZSTD_FROM: Final = 10
ANY_REPLICA_FROM: Final = 11
NOT_LOOKED_UP: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)

# A partition that had nothing to give, what was told of it until then, and its start offset.
Idle = tuple[Replica, int, Offset]


class Reading:
    """One reading of all partitions of a fetch. Built per fetch: plain slots."""

    __slots__ = ("answers", "byte_count", "idle", "is_urgent", "seen")

    def __init__(self) -> None:
        self.answers: list[PartitionData | None] = []  # None: nothing new
        self.idle: dict[int, Idle] = {}  # by place in `answers`
        self.seen: list[tuple[Replica, int]] = []
        self.byte_count = 0
        self.is_urgent = False  # an error, or data that waiting would not add to


def handle(
    services: Services, request: FetchRequest, context: RequestContext
) -> FetchResponse | Awaitable[FetchResponse] | PendingReply:
    follower = follower_of(request)
    if follower is not None:
        return serve_follower(services, request, context, follower)
    if request.isolation_level not in ISOLATION_LEVELS:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    fetch = services.fetch_sessions.begin(
        request,
        by_topic_id=context.header.api_version >= TOPIC_IDS_FROM,
        now_ms=services.world.clock.monotonic_ms(),
        principal=context.principal,
    )
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    if len(fetch.wanted) > ENTRIES_PER_TURN:
        return _long_poll(services, request, fetch, None, context)
    reading = Reading()
    _read(services, request, fetch, context, reading)
    if request.max_wait_ms <= 0 or _is_enough(services, request, reading):
        return _reply(services, fetch, reading, context)
    return _long_poll(services, request, fetch, reading, context)


def refuse(request: FetchRequest, code: ErrorCode, message: str | None) -> FetchResponse:
    """Before version 7 a reply has no error of its own, so each partition tells it."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[failed(asked.partition, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ],
    )


async def _long_poll(
    services: Services,
    request: FetchRequest,
    fetch: Fetch,
    reading: Reading | None,
    context: RequestContext,
) -> FetchResponse:
    """Waits for what there is not yet; first reads what is there, unless that is done already."""
    deadline_ms = context.received_ms + max(request.max_wait_ms, 0)
    waiter = DataWaiter()
    try:
        if reading is None:
            reading = await _read_by_turns(services, request, fetch, context, waiter)
        while not _is_enough(services, request, reading):
            wait_ms = deadline_ms - services.world.clock.monotonic_ms()
            if wait_ms <= 0:
                break
            missing_bytes = _min_bytes(services, request) - reading.byte_count
            came = await waiter.more_data(
                reading.seen, missing_bytes=missing_bytes, wait_ms=wait_ms
            )
            waiter.stop()
            reading = await _read_by_turns(
                services, request, fetch, context, waiter, before=reading
            )
            if not came:
                break
    finally:
        waiter.stop()
    return _reply(services, fetch, reading, context)


def _is_enough(services: Services, request: FetchRequest, reading: Reading) -> bool:
    return (
        reading.is_urgent or not reading.seen or reading.byte_count >= _min_bytes(services, request)
    )


def _max_bytes(services: Services, request: FetchRequest) -> int:
    return min(request.max_bytes, services.settings.fetch_max_bytes)


def _min_bytes(services: Services, request: FetchRequest) -> int:
    return min(request.min_bytes, _max_bytes(services, request))


async def _read_by_turns(
    services: Services,
    request: FetchRequest,
    fetch: Fetch,
    context: RequestContext,
    waiter: DataWaiter,
    *,
    before: Reading | None = None,
) -> Reading:
    """Like `_read`; the loop gets its turn between some hundred partitions and the next, while the
    waiter observes those that were read. Of such readings a few are under way at a time.
    """
    reading = Reading()
    if len(fetch.wanted) <= ENTRIES_PER_TURN:
        if _has_other_rights(services, context):
            before = None
        _read(services, request, fetch, context, reading, before=before)
        return reading
    places = services.long_fetches
    await places.acquire()
    try:
        while True:
            if _has_other_rights(services, context):
                before = None
            _read(services, request, fetch, context, reading, before=before)
            if len(reading.answers) == len(fetch.wanted):
                return reading
            waiter.observe(reading.seen)
            await asyncio.sleep(0)
    finally:
        places.release()


def _read(
    services: Services,
    request: FetchRequest,
    fetch: Fetch,
    context: RequestContext,
    reading: Reading,
    *,
    before: Reading | None = None,
) -> None:
    """Reads the next partitions in turn, within the bytes that are left of the reply's limit.

    Of those that were idle in the reading `before`, and still are, the answer stays.
    """
    bytes_left = max(_max_bytes(services, request), 0)
    committed_only = request.isolation_level == READ_COMMITTED
    any_replica = context.header.api_version >= ANY_REPLICA_FROM
    by_rack = any_replica and request.rack_id != "" and _by_rack(services)
    access = context.access
    done = len(reading.answers)
    for index, wanted in enumerate(fetch.wanted[done : done + ENTRIES_PER_TURN], start=done):
        if before is not None and (known := before.idle.get(index)) is not None:
            partition, changes, start_offset = known
            if partition.changes == changes and partition.log.start_offset == start_offset:
                reading.answers.append(before.answers[index])
                reading.idle[index] = known
                reading.seen.append((partition, changes))
                continue
        found = _find(
            services.partitions, wanted, by_topic_id=fetch.by_topic_id, any_replica=any_replica
        )
        if access is not None and not _may_read(services, access, wanted, found, fetch.by_topic_id):
            found = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if isinstance(found, Replica):
            answer = _read_partition(
                services.partitions,
                found,
                wanted,
                bytes_left=bytes_left - reading.byte_count,
                committed_only=committed_only,
                version=context.header.api_version,
                nearer=_nearer(services, request, context, found, wanted) if by_rack else None,
                reading=reading,
            )
        else:
            answer = failed(wanted.asked.partition, found)
            if found in NOT_LOOKED_UP:
                answer.aborted_transactions = []  # Kafka's answer for what it does not look up
        if answer is not None and answer.error_code:
            reading.is_urgent = True
            if isinstance(found, Replica):
                found.traffic.failed_fetches += 1
        elif isinstance(found, Replica) and (answer is None or answer.records is EMPTY):
            reading.idle[index] = (found, found.changes, found.log.start_offset)
        reading.answers.append(answer)


def _has_other_rights(services: Services, context: RequestContext) -> bool:
    """Whether entries of access control have changed since it was last asked what the client may
    do, which `context` then has anew. Compares identities, unless they have.
    """
    access, authorizer = context.access, services.authorizer
    entries = services.image.acls_by_pattern
    if access is None or authorizer is None or access.memory.index is entries:
        return False
    context.access = authorizer.access(context.principal, context.peer.host, entries)
    return True


def _may_read(
    services: Services,
    access: Access,
    wanted: Wanted,
    found: Replica | ErrorCode,
    by_topic_id: bool,
) -> bool:
    """An id that no topic has is told as such: ids are no secret, and names are."""
    name = wanted.topic
    if isinstance(found, Replica):
        name = found.name.topic
    elif by_topic_id:
        topic = services.image.topics_by_id.get(TopicId(wanted.topic_id))
        if topic is not None:
            name = topic.name
        elif not name:
            return True
    return access.may_read(name)


def _by_rack(services: Services) -> bool:
    return services.settings.replication.replica_selector_class == RACK_AWARE_SELECTOR


def _nearer(
    services: Services,
    request: FetchRequest,
    context: RequestContext,
    replica: Replica,
    wanted: Wanted,
) -> NodeId | None:
    """The follower that the consumer should ask; None when it is right here."""
    if not isinstance(replica, Partition):
        return None
    brokers = services.image.brokers
    racks: dict[NodeId, str | None] = {}
    for node in replica.followers.replicas:
        broker = brokers.get(node)
        if broker is not None and not broker.fenced and broker.endpoint(context.listener):
            racks[node] = broker.rack
    return nearer_follower(
        replica.followers,
        rack=request.rack_id,
        own_rack=racks.get(services.node_id),
        racks=racks,
        fetch_offset=wanted.asked.fetch_offset,
    )


def _find(
    partitions: Partitions, wanted: Wanted, *, by_topic_id: bool, any_replica: bool
) -> Replica | ErrorCode:
    index = wanted.asked.partition
    found: Replica | ErrorCode
    if by_topic_id:
        found = partitions.find_by_id(wanted.topic_id, index)
        if isinstance(found, Partition):
            wanted.topic = found.name.topic
    else:
        found = partitions.find(wanted.topic, index)
    if isinstance(found, Partition):
        return found
    if found == ErrorCode.NOT_LEADER_OR_FOLLOWER and any_replica:
        topic = wanted.topic
        if by_topic_id:
            topic = partitions.topic_name(TopicId(wanted.topic_id))
        followed = partitions.replica(TopicPartition(topic, index))
        if followed is None:
            return found
        wanted.topic = topic
        return followed
    if found == ErrorCode.UNKNOWN_TOPIC_ID and by_topic_id and wanted.topic:
        # The session knew this topic: it is gone, or another has its name now.
        if partitions.has_topic(wanted.topic):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found


def _read_partition(
    partitions: Partitions,
    partition: Replica,
    wanted: Wanted,
    *,
    bytes_left: int,
    committed_only: bool,
    version: int,
    nearer: NodeId | None,
    reading: Reading,
) -> PartitionData | None:
    asked = wanted.asked
    code = check_leader_epoch(asked=asked.current_leader_epoch, known=partition.leader_epoch)
    if code:
        return failed(asked.partition, code)
    if nearer is not None:
        reading.is_urgent = True
        return redirected(partition, asked.partition, to=nearer)
    if version < ZSTD_FROM and partition.settings.compression_type == "zstd":
        return failed(asked.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if asked.last_fetched_epoch >= 0:
        where = diverged(
            partition,
            asked.partition,
            last_fetched_epoch=asked.last_fetched_epoch,
            fetch_offset=asked.fetch_offset,
        )
        if where is not None:
            reading.is_urgent = True
            return where
    if not partition.has_offset(asked.fetch_offset):
        return failed(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
    reading.seen.append((partition, partition.changes))
    try:
        found = partition.read(
            asked.fetch_offset,
            size_bytes_max=max(min(asked.partition_max_bytes, bytes_left), 0),
            oversized_first=reading.byte_count == 0,
            committed_only=committed_only,
        )
    except CorruptData as damage:
        partitions.damage_found(partition, damage)
        return failed(asked.partition, ErrorCode.CORRUPT_MESSAGE)
    except DiskError as error:
        partitions.read_failed(partition, error)
        # A client of old does not know the storage error; this one makes it ask for the leader.
        known = version >= STORAGE_ERROR_FROM
        code = ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return failed(asked.partition, code)
    start_offset = partition.log.start_offset
    if found is None and wanted.is_sent(
        high_watermark=partition.high_watermark, start_offset=start_offset
    ):
        return None
    answer = PartitionData(
        partition_index=asked.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=start_offset,
        aborted_transactions=[] if committed_only else None,
        records=EMPTY,
    )
    if found is not None:
        _add_records(
            answer,
            partition,
            found,
            from_offset=Offset(asked.fetch_offset),
            committed_only=committed_only,
            reading=reading,
        )
    return answer


def _add_records(
    answer: PartitionData,
    partition: Replica,
    found: LogSlice,
    *,
    from_offset: Offset,
    committed_only: bool,
    reading: Reading,
) -> None:
    if found.span is None:
        return
    answer.records = found.span
    reading.byte_count += found.span.byte_count
    if found.segment_base_offset != partition.log.segments[-1].base_offset:
        reading.is_urgent = True  # more lies in the next segment: waiting would add nothing
    if committed_only:
        until_offset = min(partition.last_stable_offset, partition.log.end_of(found))
        aborted = partition.log.aborted_within(from_offset=from_offset, until_offset=until_offset)
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in aborted
        ]


def _reply(
    services: Services, fetch: Fetch, reading: Reading, context: RequestContext
) -> FetchResponse:
    finished = services.fetch_sessions.finish(
        fetch, reading.answers, now_ms=services.world.clock.monotonic_ms()
    )
    if isinstance(finished, ErrorCode):
        return FetchResponse(error_code=finished)
    response = FetchResponse(session_id=finished.session_id)
    topic: FetchableTopicResponse | None = None
    key: bytes | str = EMPTY
    for wanted, answer in finished.sent:
        if topic is None or wanted.key[0] != key:
            key = wanted.key[0]
            topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id)
            response.responses.append(topic)
        topic.partitions.append(answer)
        if isinstance(answer.records, FileRange):
            traffic = services.partitions.traffic.get(wanted.topic)
            if traffic is not None:
                traffic.bytes_out += answer.records.byte_count
    if reading.is_urgent:
        name_leaders(
            services, response, version=context.header.api_version, listener=context.listener
        )
    return response


API = Api(
    key=ApiKey.FETCH,
    versions=VersionRange(4, 18),
    request=FetchRequest,
    handle=handle,
    refuse=refuse,
    shortcut=answer_follower,
)
