"""Cursors to a Fetch request, and its reply to data and errors by partition."""

from collections.abc import Iterable, Sequence

from penstock.client.consume.cursor import Cursor
from penstock.client.consume.fetched_data import FetchedData
from penstock.client.consume.isolation import Isolation
from penstock.client.consume.visible_batches import Aborted
from penstock.client.network.errors import error_code
from penstock.client.network.routing import ClusterView
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, ProducerId, TopicId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NAMES_VERSION_MAX = 12  # beyond it topics are told by id


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRules:
    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 16 * MIB
    partition_bytes_max: int = 1 * MIB
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    rack: str = ""  # of the reader: leaders may name a replica there, which is read then

    def __post_init__(self) -> None:
        assert self.bytes_max >= KIB
        assert self.partition_bytes_max > 0


@dataclass(slots=True, kw_only=True)
class Asked:
    """What was asked of one partition, so that the answer can be told from an older one's."""

    cursor: Cursor
    partition: TopicPartition
    position: Offset
    move: int


@dataclass(slots=True, kw_only=True)
class FetchFailed:
    asked: Asked
    code: ErrorCode


@dataclass(slots=True, kw_only=True)
class FetchRedirected:
    """The leader named a replica that is nearer, and sent no records."""

    asked: Asked
    to: NodeId


@dataclass(slots=True, kw_only=True)
class FetchSucceeded:
    asked: Asked
    data: FetchedData


def named_replica(cursor: Cursor, view: ClusterView, *, now_ms: int) -> NodeId | None:
    """The replica that the leader named, while that holds; None: the leader is asked."""
    near, known = cursor.read_replica, view.partition(cursor.partition)
    if near is None or known is None or known.leader is None:
        return None
    is_of_this_leader = known.leader_epoch == near.leader_epoch
    if is_of_this_leader and near.node in view.brokers and now_ms < near.until_ms:
        return near.node
    return None


def may_be_redirected(cursors: Iterable[Cursor], node: NodeId) -> bool:
    """Whether a node is told the reader's rack. It is not if it leads a partition whose named
    replica cannot be reached: it would name that one again, instead of sending records.
    """
    return all(
        cursor.read_replica is None or cursor.read_replica.node == node for cursor in cursors
    )


def fetch_request(
    cursors: Sequence[Cursor], view: ClusterView, rules: FetchRules, *, with_rack: bool = True
) -> tuple[FetchRequest, list[Asked]]:
    """A request without a fetch session, and what it asks for."""
    topics: dict[str, FetchTopic] = {}
    asked = []
    for cursor in cursors:
        assert cursor.fetch_position is not None
        name, index = cursor.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=view.topic_id(name))
        known = view.partition(cursor.partition)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                fetch_offset=cursor.fetch_position,
                partition_max_bytes=rules.partition_bytes_max,
            )
        )
        asked.append(
            Asked(
                cursor=cursor,
                partition=cursor.partition,
                position=cursor.fetch_position,
                move=cursor.move,
            )
        )
    request = FetchRequest(
        max_wait_ms=rules.wait_ms_max,
        min_bytes=rules.bytes_min,
        max_bytes=rules.bytes_max,
        isolation_level=rules.isolation,
        topics=list(topics.values()),
        rack_id=rules.rack if with_rack else "",
    )
    return request, asked


def version_bound(request: FetchRequest, view: ClusterView) -> int | None:
    """The newest version that can say what the request says; None when any can."""
    by_id = view.ids_known(topic.topic for topic in request.topics)
    return None if by_id else NAMES_VERSION_MAX


def outcome(
    reply: FetchResponse, asked: Sequence[Asked], view: ClusterView, rules: FetchRules
) -> list[FetchSucceeded | FetchRedirected | FetchFailed]:
    """What the reply says of each partition asked for, in their order."""
    whole = error_code(reply.error_code)
    if whole != ErrorCode.NONE:
        return [FetchFailed(asked=one, code=whole) for one in asked]
    names = view.topic_names()
    told = {
        TopicPartition(
            topic.topic or names.get(TopicId(topic.topic_id), ""), partition.partition_index
        ): partition
        for topic in reply.responses
        for partition in topic.partitions
    }
    return [_outcome(one, told.get(one.partition), rules) for one in asked]


def _outcome(
    asked: Asked, told: PartitionData | None, rules: FetchRules
) -> FetchSucceeded | FetchRedirected | FetchFailed:
    if told is None:
        # Under an id that we do not know any more: the topic was deleted, or made anew.
        return FetchFailed(asked=asked, code=ErrorCode.UNKNOWN_TOPIC_ID)
    code = error_code(told.error_code)
    if code != ErrorCode.NONE:
        return FetchFailed(asked=asked, code=code)
    if told.preferred_read_replica >= 0:
        return FetchRedirected(asked=asked, to=NodeId(told.preferred_read_replica))
    records = told.records
    assert records is None or isinstance(records, memoryview)
    data = FetchedData(
        asked.partition,
        records if records is not None else memoryview(b""),
        position=asked.position,
        read_committed=rules.isolation is Isolation.READ_COMMITTED,
        aborted=[
            Aborted(
                producer_id=ProducerId(aborted.producer_id),
                first_offset=Offset(aborted.first_offset),
            )
            for aborted in told.aborted_transactions or ()
        ],
    )
    return FetchSucceeded(asked=asked, data=data)
