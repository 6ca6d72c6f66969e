"""A conversation about transactions: requests of producers, right or wrong, and what is answered.

Producer ids differ from broker to broker. They are written down by the order in which they are met,
so that a conversation shows where an id stays and where it is another one. Times are written down
as there or not there. Nothing is asked while markers are on their way, unless that is the question:
how long they take is nobody's promise.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.wire.definition import Message, Struct
from penstock.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.wire.messages.describe_groups import DescribeGroupsRequest
from penstock.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.wire.messages.describe_transactions import DescribeTransactionsRequest, TopicData
from penstock.wire.messages.end_txn import EndTxnRequest
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from rig.dialogue import UNLIKE, Dialogue

NOON_MS = 1_700_000_000_000
TIMEOUT_MS = 600_000
TRANSACTION_KEY = 1
NOT_YET = (14, 15, 16)  # loading, not available, not here
CONCURRENT_TRANSACTIONS = 51
NEWEST_INIT = 5
IDS = frozenset({"producer_id", "ongoing_txn_producer_id"})
TIMES = frozenset({"transaction_start_time_ms", "last_timestamp"})
LATEST = -1
COMMITTED, UNCOMMITTED = 1, 0


@dataclass(slots=True, kw_only=True)
class Producer:
    """What a client holds. A copy is another process that knows as much: a zombie, a retry."""

    transactional_id: str
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)  # the next of each partition

    def copy(self, **changes: Any) -> "Producer":
        return replace(self, sequences=dict(self.sequences), **changes)


def wrong_identities(producer: Producer) -> list[Producer]:
    """Who is not the producer: of other epochs, of another producer id, of another name."""
    return [
        producer.copy(epoch=producer.epoch + 1),
        producer.copy(epoch=producer.epoch - 1),
        producer.copy(epoch=2**15 - 1),
        producer.copy(producer_id=producer.producer_id + 1_000_000),
        producer.copy(producer_id=-1, epoch=-1),
        producer.copy(transactional_id=producer.transactional_id + "-unknown"),
        producer.copy(transactional_id=""),
    ]


class TransactionDialogue:
    """See the module."""

    def __init__(self, dialogue: Dialogue, *, partitions: int = 2, creates: bool = True) -> None:
        self.dialogue = dialogue
        self.topic = dialogue.topic
        self.topic_id = bytes(16)
        if creates:
            # What is written is of long ago, and must not be too old to stay.
            self.topic_id = dialogue.create_topic(partitions=partitions, retention_ms="-1")
        self._names: dict[int, str] = {-1: "none"}

    def producer(self, suffix: str = "", *, version: int = NEWEST_INIT) -> Producer:
        """A client that has just begun; its InitProducerId is not written down."""
        producer = Producer(transactional_id=f"{self.topic}{suffix}")
        self.await_coordinator(producer)
        request = self.init_request(producer)
        answer = self.dialogue.exchange(request, version=version)
        while answer.error_code in (*NOT_YET, CONCURRENT_TRANSACTIONS):
            answer = self.dialogue.exchange(request, version=version)
        assert answer.error_code == 0, answer
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        self.name_of(producer.producer_id)
        return producer

    def await_coordinator(self, producer: Producer) -> None:
        key = producer.transactional_id
        find = FindCoordinatorRequest(coordinator_keys=[key], key_type=TRANSACTION_KEY)
        while self.dialogue.exchange(find, version=4).coordinators[0].error_code in NOT_YET:
            pass
        while self._described(producer).error_code in NOT_YET:
            pass

    def group(self) -> str:
        """A group of this conversation's own, whose coordinator is ready."""
        name = f"group-of-{self.topic}"
        find = FindCoordinatorRequest(coordinator_keys=[name])
        while self.dialogue.exchange(find, version=4).coordinators[0].error_code in NOT_YET:
            pass
        describe = DescribeGroupsRequest(groups=[name])
        while self.dialogue.exchange(describe, version=5).groups[0].error_code in NOT_YET:
            pass
        return name

    def ask(self, request: Message, *, version: int) -> Any:
        """Asks, writes the answer down, and returns it."""
        answer = self.dialogue.exchange(request, version=version)
        self.dialogue.answers.append((type(request).__name__, version, self._plain(answer)))
        return answer

    def init(self, producer: Producer, *, version: int = NEWEST_INIT, **fields: Any) -> Any:
        """InitProducerId; the producer learns from the answer, if it is one."""
        answer = self.ask(self.init_request(producer, **fields), version=version)
        if answer.error_code == 0:
            producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
            producer.sequences.clear()
        return answer

    def init_request(self, producer: Producer, **fields: Any) -> InitProducerIdRequest:
        fields.setdefault("transactional_id", producer.transactional_id)
        fields.setdefault("transaction_timeout_ms", TIMEOUT_MS)
        return InitProducerIdRequest(**fields)

    def add(
        self,
        producer: Producer,
        *partitions: int,
        version: int = 3,
        topics: dict[str, list[int]] | None = None,
        verify_only: bool = False,
    ) -> Any:
        """AddPartitionsToTxn, in the form of its version."""
        wanted = {self.topic: list(partitions)} if topics is None else topics
        named = [
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in wanted.items()
        ]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=named,
            )
        else:
            request = AddPartitionsToTxnRequest(
                transactions=[self.enlistment(producer, named, verify_only=verify_only)]
            )
        return self.ask(request, version=version)

    def enlistment(
        self,
        producer: Producer,
        topics: list[AddPartitionsToTxnTopic],
        *,
        verify_only: bool = False,
    ) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=topics,
        )

    def add_offsets(self, producer: Producer, *, group: str, version: int = 4) -> Any:
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        return self.ask(request, version=version)

    def commit_offset(
        self,
        producer: Producer,
        offset: int,
        *,
        group: str,
        version: int = 4,
        topics: dict[str, list[int]] | None = None,
        metadata: str | None = "",
        **fields: Any,
    ) -> Any:
        named = [
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index in indexes
                ],
            )
            for name, indexes in (topics or {self.topic: [0]}).items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
            topics=named,
            **fields,
        )
        return self.ask(request, version=version)

    def produce(
        self,
        producer: Producer,
        partition: int = 0,
        *,
        version: int = 11,
        transactional: bool = True,
        named: bool = True,
        sequence: int | None = None,
        acks: int = -1,
    ) -> Any:
        """One record in a batch of the producer's; its sequence goes on where that is taken."""
        following = producer.sequences.get(partition, 0) if sequence is None else sequence
        batch = build_batch(
            [Record(key=b"k", value=b"v", timestamp_ms=NOON_MS)],
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=ProducerEpoch(producer.epoch),
            base_sequence=following,
            transactional=transactional,
        )
        part = PartitionProduceData(index=partition, records=memoryview(batch))
        data = TopicProduceData(name=self.topic, topic_id=self.topic_id, partition_data=[part])
        request = ProduceRequest(
            transactional_id=producer.transactional_id if named else None,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[data],
        )
        answer = self.ask(request, version=version)
        if answer.responses[0].partition_responses[0].error_code == 0:
            producer.sequences[partition] = following + 1
        return answer

    def end(self, producer: Producer, *, commit: bool, version: int = 4, waits: bool = True) -> Any:
        """EndTxn; the producer learns its next identity, and the markers are waited for."""
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.ask(request, version=version)
        if answer.error_code == 0 and answer.producer_id >= 0:
            producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
            producer.sequences.clear()
        if waits:
            self.await_end(producer)
        return answer

    def await_end(self, producer: Producer) -> None:
        while self._described(producer).transaction_state.startswith("Prepare"):
            pass

    def mark(
        self,
        producer: Producer,
        *partitions: int,
        commit: bool,
        version: int = 2,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        topic: str | None = None,
    ) -> Any:
        where = WritableTxnMarkerTopic(
            name=self.topic if topic is None else topic, partition_indexes=list(partitions)
        )
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=commit,
            topics=[where],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        return self.ask(WriteTxnMarkersRequest(markers=[marker]), version=version)

    @contextmanager
    def nothing_changes(self, *producers: Producer) -> Iterator[None]:
        """Whatever is said meanwhile: all that can be seen stays as it is."""
        before = self.look(*producers)
        yield
        assert self.look(*producers) == before

    def look(self, *producers: Producer) -> list[Any]:
        """Writes down all that there is to see of the producers, and of what they wrote to."""
        written = len(self.dialogue.answers)
        ids = [producer.transactional_id for producer in producers]
        self.ask(DescribeTransactionsRequest(transactional_ids=ids), version=0)
        where = TopicRequest(name=self.topic, partition_indexes=[0, 1])
        self.ask(DescribeProducersRequest(topics=[where]), version=0)
        for isolation in (COMMITTED, UNCOMMITTED):
            parts = [ListOffsetsPartition(partition_index=n, timestamp=LATEST) for n in (0, 1)]
            asked = ListOffsetsTopic(name=self.topic, partitions=parts)
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[asked])
            self.ask(request, version=7)
        return self.dialogue.answers[written:]

    def name_of(self, producer_id: int) -> str:
        """How it is written down."""
        return self._names.setdefault(producer_id, f"producer {len(self._names)}")

    def _described(self, producer: Producer) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
        [state] = self.dialogue.exchange(request, version=0).transaction_states
        return state

    def _plain(self, value: Any) -> Any:
        if isinstance(value, TopicData) and value.topic == OFFSETS_TOPIC:
            return OFFSETS_TOPIC  # which of its partitions depends on how many it has
        if isinstance(value, Struct | Message):
            plain = {
                name: self._plain_field(name, getattr(value, name))
                for name in type(value).__slots__
                if name not in IDS and name not in UNLIKE
            }
            for name in IDS.intersection(type(value).__slots__):
                # With an error it is 0, which may be the id of a producer as well.
                known = getattr(value, "error_code", 0) == 0
                plain[name] = self.name_of(getattr(value, name)) if known else getattr(value, name)
            return plain
        if isinstance(value, list):
            # What is told in the order of a table in memory is put in an order of its own.
            return sorted((self._plain(one) for one in value), key=repr)
        return value

    def _plain_field(self, name: str, value: Any) -> Any:
        if name in TIMES:
            return value > 0
        return self._plain(value)
