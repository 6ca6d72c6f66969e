"""Transactions that hang: open in a partition, and nobody is going to end them there.

A partition remembers who has a transaction open in it, and the coordinator of a transactional id
which partitions it has still to tell. A transaction hangs where the one says open and the other
does not have the partition: a batch came late, after the marker that should have ended it, and now
no reader of what is committed gets past it, nor does compaction. It is ended by a marker that is
written by hand.

The partitions are asked before the coordinators and again afterwards, as a transaction may end in
between. What is open in both answers, from the same offset on, was open all the time.

An authorizer shortens the list of transactions to what the client may describe, and does not say
so. Where no coordinator seems to know a producer, the client must therefore be allowed to describe
any transactional id. The age of the transaction would prove nothing: it goes by the timestamps of
records, which producers choose, and a two-phase commit may stay open for as long as it likes.
"""

from collections.abc import Iterable, Mapping, Sequence

from penstock.client.admin.transaction_listing import (
    TransactionDescription,
    Wanted,
    describe_transactions,
    list_transactions,
)
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import Offset
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PARTITIONS_AT_ONCE_MAX = 500
# Nobody's id: only entries for all ids, and no prefixes, allow to describe it.
ANY_ID = "~ penstock asks whether it may describe any transactional id"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction as one partition sees it."""

    partition: TopicPartition
    start_offset: Offset
    producer_id: int
    epoch: int
    coordinator_epoch: int | None  # of the last marker; None: there was none yet
    last_write_ms: int  # by the timestamps of its records

    def is_the_same_as(self, other: "OpenTransaction | None") -> bool:
        return (
            other is not None
            and other.start_offset == self.start_offset
            and other.producer_id == self.producer_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """An open transaction, and what its coordinator says about it; None: nobody knows of it."""

    open: OpenTransaction
    known: TransactionDescription | None

    @property
    def hangs(self) -> bool:
        """Whether no coordinator is going to end it in this partition."""
        return self.known is None or self.open.partition not in self.known.partitions

    def open_since_ms(self) -> int:
        """Where the coordinator has it, by the coordinator's clock."""
        if not self.hangs and self.known is not None and self.known.start_ms is not None:
            return self.known.start_ms
        return self.open.last_write_ms


async def open_transactions(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """In the order of the partitions. Refused where a partition can't be asked."""
    by_leader: dict[NodeId, list[TopicPartition]] = {}
    for place in partitions:
        leader = cluster.view.leader_of(place)
        if leader is None:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, str(place), "it has no leader")
        by_leader.setdefault(leader, []).append(place)
    found: list[OpenTransaction] = []
    for leader, places in by_leader.items():
        for start in range(0, len(places), PARTITIONS_AT_ONCE_MAX):
            part = places[start : start + PARTITIONS_AT_ONCE_MAX]
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=indexes)
                    for topic, indexes in _by_topic(part).items()
                ]
            )
            found += _open(await cluster.ask(leader, request, DescribeProducersResponse))
    return sorted(found, key=lambda one: (one.partition, one.start_offset))


async def suspects(
    cluster: Cluster, coordinators: Coordinators, partitions: Sequence[TopicPartition]
) -> list[Suspect]:
    """All that is open in the partitions, with what the coordinators know of it. Refused when they
    may know of it and not tell this client.
    """
    before = await open_transactions(cluster, partitions)
    if not before:
        return []
    producers = sorted({one.producer_id for one in before})
    listed = await list_transactions(cluster, Wanted(producer_ids=producers))
    described = await describe_transactions(
        coordinators, [transaction.transactional_id for transaction in listed]
    )
    known: dict[int, TransactionDescription] = {}
    for description in described.values():
        if isinstance(description, TransactionDescription):
            known[description.producer_id] = description
        elif description.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it expired meanwhile
            raise description
    places = list(dict.fromkeys(one.partition for one in before))
    after = await open_transactions(cluster, places)
    found = still_open(before, after, known)
    unknown = [one.open for one in found if one.known is None]
    if unknown:
        await _need_all_ids(coordinators, unknown[0])
    return found


async def _need_all_ids(coordinators: Coordinators, unknown: OpenTransaction) -> None:
    """Refused unless the client may describe any transactional id."""
    try:
        described = (await describe_transactions(coordinators, (ANY_ID,)))[ANY_ID]
    except Refused as refused:
        described = refused
    if not isinstance(described, Refused):
        return
    if described.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        raise Refused(
            described.code,
            str(unknown.partition),
            f"the transaction that begins at {unknown.start_offset} may have a coordinator that"
            " does not tell you: this needs DESCRIBE on all transactional ids",
        )
    if described.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise described


def still_open(
    before: Iterable[OpenTransaction],
    after: Iterable[OpenTransaction],
    known: Mapping[int, TransactionDescription],
) -> list[Suspect]:
    """What was open all the time that the coordinators were asked, with their answers."""
    now = {(one.partition, one.producer_id): one for one in after}
    return [
        Suspect(open=one, known=known.get(one.producer_id))
        for one in before
        if one.is_the_same_as(now.get((one.partition, one.producer_id)))
    ]


async def abort_hanging(cluster: Cluster, hanging: OpenTransaction) -> None:
    """Writes the marker. Refused when the partition does not take it."""
    topic, index = hanging.partition
    marker = WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=hanging.coordinator_epoch or 0,
    )
    leader = cluster.view.leader_of(hanging.partition)
    assert leader is not None, "it was asked a moment ago"
    request = WriteTxnMarkersRequest(markers=[marker])
    reply = await cluster.ask(leader, request, WriteTxnMarkersResponse)
    for result in reply.markers:
        for told in result.topics:
            for partition in told.partitions:
                code = error_code(partition.error_code)
                if code != ErrorCode.NONE:
                    raise Refused(code, str(hanging.partition))


def _open(reply: DescribeProducersResponse) -> list[OpenTransaction]:
    found = []
    for topic in reply.topics:
        for told in topic.partitions:
            place = TopicPartition(topic.name, told.partition_index)
            code = error_code(told.error_code)
            if code != ErrorCode.NONE:
                raise Refused(code, str(place), told.error_message)
            found += [
                OpenTransaction(
                    partition=place,
                    start_offset=Offset(producer.current_txn_start_offset),
                    producer_id=producer.producer_id,
                    epoch=producer.producer_epoch,
                    coordinator_epoch=(
                        None if producer.coordinator_epoch < 0 else producer.coordinator_epoch
                    ),
                    last_write_ms=producer.last_timestamp,
                )
                for producer in told.active_producers
                if producer.current_txn_start_offset >= 0
            ]
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
