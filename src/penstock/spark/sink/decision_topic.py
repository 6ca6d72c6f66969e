"""The topic in which sinks decide: compacted, each sink's record in a partition by its name.

It is made by the first sink that needs it. Found with a policy that deletes, or with fewer replicas
than were asked for, it is refused: a decision that goes away is a batch that is written twice.

A process remembers what it has read, and reads on from there: Spark keeps its Python processes for
the next batch. So do tasks, and who commits, from what the plan of their batch has read. A topic
that was made anew, and a partition with another leader, which may have lost its end, are read from
their beginning: what was read names the log that it was read from (`LogIdentity`).
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.client.admin.admin import BROKERS_DECIDE, Admin, NewTopic
from penstock.client.admin.configs import Resource, describe_configs
from penstock.client.admin.hanging_transactions import suspects
from penstock.client.consume.compacted_topic import EndNotReached, read_range
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError, Refused, TimedOut
from penstock.client.produce.partitioner import partition_of_key
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch, Offset
from penstock.spark.sink.decision import SinkRecord, UnreadableDecision, decode
from penstock.spark.sink.errors import WrongDecisionTopic

PARTITIONS = 8
POLICY = "cleanup.policy"
COMPACTED = "compact"
# A new record a few times a batch, of which only the last counts: what is old goes soon.
SETTINGS = {
    POLICY: COMPACTED,
    "segment.bytes": str(16 << 20),
    "segment.ms": str(3_600_000),
    "max.message.bytes": str(8 << 20),  # a decision names each task of a batch
    "unclean.leader.election.enable": "false",  # no leader that may lack what was decided
}
# As of the transaction log. Of two replicas one may fail, and of a single one there is no choice.
REPLICAS_FOR_MIN_IN_SYNC = 3
MIN_IN_SYNC_OF_THREE = {"min.insync.replicas": "2"}
READ_MS_MAX = 60_000
EXPLAIN_MS_MAX = 10_000
FIRST = Offset(0)
MADE_MS_MAX = 10_000
ELECTIONS_MAX = 10  # of a partition, while it is read
REMEMBERED_MAX = 256  # sinks, and topics; beyond it they are read from their beginning
logger = logging.getLogger(__name__)


class LogIdentity(NamedTuple):
    """The same as long as offsets of a partition stay what they were."""

    cluster_id: str | None
    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A sink's record, and from where on nobody has looked yet, in this very log."""

    log: LogIdentity
    record: SinkRecord | None
    position: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWrites:
    """The single writes that are decided and not complete, and from where on to look for more."""

    logs: tuple[LogIdentity, ...]
    records: Mapping[str, SinkRecord]
    positions: Mapping[TopicPartition, Offset]


class RememberedSinks:
    """What was last read of each sink, one entry for each topic and sink, and all of them small.

    A decision that is not yet complete names all its tasks, so the entry before it stays: from its
    position on it is read again. A sink without a record, or with that of a single write, is no
    sink whose name comes again.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str, str], Known] = {}  # by cluster, topic and sink

    def __len__(self) -> int:
        return len(self._known)

    def find(self, log: LogIdentity, *, topic: str, sink: str) -> Known | None:
        """What was read of this very log."""
        known = self._known.get((log.cluster_id, topic, sink))
        return known if known is not None and known.log == log else None

    def note(self, known: Known, *, topic: str, sink: str) -> None:
        record = known.record
        if record is None or record.once or record.unfinished is not None:
            return
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        key = (known.log.cluster_id, topic, sink)
        self._known[key] = replace(known, record=record.for_tasks)


_sinks = RememberedSinks()
_left_writes: dict[tuple[str | None, str], LeftWrites] = {}  # by cluster and topic


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTopic:
    cluster: Cluster
    name: str
    replicas: int | None = None  # None: what the brokers give a topic
    read_ms_max: int = READ_MS_MAX

    async def make(self) -> None:
        """There is such a topic when this returns; WrongDecisionTopic if it can't be used."""
        if not await self.exists():
            topic = NewTopic(
                name=self.name,
                partitions=PARTITIONS,
                replicas=BROKERS_DECIDE if self.replicas is None else self.replicas,
                settings=SETTINGS | await self._min_in_sync(),
            )
            [made] = (await Admin(self.cluster).create_topics([topic])).values()
            if not isinstance(made, Refused):
                await self.cluster.need((self.name,), wait_ms=MADE_MS_MAX)
                self._check_replicas()
                return
            if made.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise made
            await self.cluster.need((self.name,), wait_ms=MADE_MS_MAX)
        self._check_replicas()
        await self._check_policy()

    async def _min_in_sync(self) -> dict[str, str]:
        """What a new topic is told of it: the brokers' own default where it has few replicas."""
        replicas = self.replicas or await Admin(self.cluster).replicas_by_default(self.name)
        enough = replicas is not None and replicas >= REPLICAS_FOR_MIN_IN_SYNC
        return MIN_IN_SYNC_OF_THREE if enough else {}

    async def exists(self) -> bool:
        view = await self.cluster.refresh((self.name,))
        return self.name in view.topics

    async def place_of(self, sink: str) -> TopicPartition:
        view = await self.cluster.need((self.name,), wait_ms=MADE_MS_MAX)
        count = len(view.topics[self.name].partitions)
        return TopicPartition(self.name, partition_of_key(sink.encode(), count))

    async def nothing(self, sink: str) -> Known:
        """Of a sink whose name nobody has heard yet: what is there by now is not read for it."""
        place = await self.place_of(sink)
        log = self._identity_of(place)
        [end] = (await offsets_of(self.cluster, [place], When.LATEST)).values()
        return Known(log=log, record=None, position=end)

    async def last(self, sink: str, known: Known | None = None) -> Known:
        """A sink's record, of all that was written before the question; see `ReadLast`. What is
        `known`, or remembered, is not read again.
        """
        for _ in range(ELECTIONS_MAX):
            place = await self.place_of(sink)
            log = self._identity_of(place)
            if known is None or known.log != log:
                known = _sinks.find(log, topic=self.name, sink=sink)
            last = await self._last(
                sink, place, known or Known(log=log, record=None, position=FIRST)
            )
            if self._is_still(place, log):
                _sinks.note(last, topic=self.name, sink=sink)
                return last
        raise self._elected_too_often()

    async def _last(self, sink: str, place: TopicPartition, known: Known) -> Known:
        [end] = (await offsets_of(self.cluster, [place], When.LATEST)).values()
        # A log without leader epochs, as old brokers have, may be shorter than it was.
        start, record = known.position, known.record
        if start > end:
            start, record = FIRST, None
        found = await self._read({place: start}, {place: end})
        if sink.encode() in found:
            value = found[sink.encode()]
            record = None if value is None else decode(value)
        return Known(log=known.log, record=record, position=end)

    async def left_writes(self) -> dict[str, SinkRecord]:
        """The records of single writes that are decided and not complete, by the sinks' names."""
        for _ in range(ELECTIONS_MAX):
            places = await self._places()
            logs = tuple(self._identity_of(place) for place in places)
            left = await self._left_writes(places, logs)
            if all(map(self._is_still, places, logs)):
                if len(_left_writes) >= REMEMBERED_MAX:
                    _left_writes.clear()
                _left_writes[self.cluster.view.cluster_id, self.name] = left
                return dict(left.records)
        raise self._elected_too_often()

    async def _left_writes(
        self, places: Sequence[TopicPartition], logs: tuple[LogIdentity, ...]
    ) -> LeftWrites:
        ends = await offsets_of(self.cluster, places, When.LATEST)
        before = _left_writes.get((self.cluster.view.cluster_id, self.name))
        if (
            before is None
            or before.logs != logs
            or any(before.positions[place] > ends[place] for place in places)
        ):
            before = LeftWrites(logs=logs, records={}, positions=dict.fromkeys(places, FIRST))
        found = await self._read(before.positions, ends)
        left = {sink: one for sink, one in before.records.items() if sink.encode() not in found}
        for sink, record in self._decoded(found).items():
            if record.once and record.unfinished is not None:
                left[sink] = record
        return LeftWrites(logs=logs, records=left, positions=ends)

    async def all(self) -> dict[str, SinkRecord]:
        """The records of all sinks, by name. What is no sink's is left alone, and logged."""
        places = await self._places()
        ends = await offsets_of(self.cluster, places, When.LATEST)
        return self._decoded(await self._read(dict.fromkeys(places, FIRST), ends))

    def _decoded(self, found: Mapping[bytes, bytes | None]) -> dict[str, SinkRecord]:
        records: dict[str, SinkRecord] = {}
        for key, value in sorted(found.items()):
            if value is None:
                continue
            try:
                records[key.decode()] = decode(value)
            except (UnicodeDecodeError, UnreadableDecision) as error:
                logger.warning("topic=%s key=%r: %s", self.name, key, error)
        return records

    async def _places(self) -> list[TopicPartition]:
        view = await self.cluster.need((self.name,), wait_ms=MADE_MS_MAX)
        count = len(view.topics[self.name].partitions)
        return [TopicPartition(self.name, index) for index in range(count)]

    def _identity_of(self, place: TopicPartition) -> LogIdentity:
        view = self.cluster.view
        partition = view.partition(place)
        assert partition is not None, place
        return LogIdentity(
            cluster_id=view.cluster_id,
            topic_id=view.topics[self.name].topic_id,
            partition=place.partition,
            leader_epoch=partition.leader_epoch,
        )

    def _is_still(self, place: TopicPartition, log: LogIdentity) -> bool:
        """Whether all answers since it was `log` are of that one: brokers refuse questions that
        name another leader epoch than theirs, and then the view is refreshed.
        """
        return self.cluster.view.partition(place) is not None and self._identity_of(place) == log

    def _elected_too_often(self) -> TimedOut:
        return TimedOut(
            f"topic {self.name}: decisions could not be read, as leaders of its partitions were"
            f" elected {ELECTIONS_MAX} times meanwhile"
        )

    async def _read(
        self, starts: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
    ) -> dict[bytes, bytes | None]:
        """The last value of each key in [start, end), None where it was taken away."""
        starts = {place: start for place, start in starts.items() if start < ends[place]}
        if not starts:
            return {}
        found: dict[bytes, bytes | None] = {}

        def take(record: ConsumedRecord) -> None:
            if record.key is not None:
                found[record.key] = record.value

        try:
            await read_range(self.cluster, starts, ends, take, idle_ms_max=self.read_ms_max)
        except EndNotReached as error:
            raise TimedOut(
                f"topic {self.name}: decisions could not be read within {self.read_ms_max} ms"
                f"{await self._held_back_by(starts)}"
            ) from error
        return found

    async def _held_back_by(self, places: Iterable[TopicPartition]) -> str:
        """What a user should know of the transaction that is open there; "" if nobody can say."""
        coordinators = Coordinators(self.cluster, kind=CoordinatorKind.TRANSACTION)
        try:
            async with asyncio.timeout(EXPLAIN_MS_MAX / 1000):
                found = await suspects(self.cluster, coordinators, list(places))
        except (ClientError, TimeoutError):
            return ""
        if not found:
            return ""
        one = max(found, key=lambda suspect: suspect.hangs)
        place = f"{self.name}:{one.open.partition.partition}"
        held = (
            f": producer {one.open.producer_id} has a transaction open in {place} from offset"
            f" {one.open.start_offset} on"
        )
        if not one.hangs:
            return held
        return (
            f"{held} which no coordinator that answers knows: if `penstock transactions hanging"
            f" --older-than 1m --topic {self.name}` shows it too, `penstock transactions abort"
            f" --topic {place} --start-offset {one.open.start_offset}` ends it, and the query can"
            " be started again"
        )

    def warn_if_single(self, sink: str) -> None:
        """Where others could hold the decisions too, and a failed disk would lose them."""
        if self.replicas is None and self._replicas() == 1 and len(self.cluster.view.brokers) > 1:
            logger.warning(
                "sink=%s: topic %s has 1 replica, and what sinks have decided is lost with it: give"
                " it more, and say how many with option decisionReplicas",
                sink,
                self.name,
            )

    def _replicas(self) -> int:
        """Of the partition that has the fewest."""
        topic = self.cluster.view.topics[self.name]
        return min(len(partition.replicas) for partition in topic.partitions)

    def _check_replicas(self) -> None:
        if self.replicas is not None and self._replicas() < self.replicas:
            raise WrongDecisionTopic(
                f"topic {self.name} can't hold the decisions of sinks: it has"
                f" {self._replicas()} of {self.replicas} replicas that option decisionReplicas asks"
                " for: give it more, or name another with option decisionTopic"
            )

    async def _check_policy(self) -> None:
        resource = Resource(ResourceKind.TOPIC, self.name)
        entries = (await describe_configs(self.cluster, [resource]))[resource]
        if isinstance(entries, Refused):
            raise entries
        policy = next((entry.value for entry in entries if entry.name == POLICY), None)
        if policy != COMPACTED:
            raise WrongDecisionTopic(
                f"topic {self.name} can't hold the decisions of sinks: its {POLICY} is {policy},"
                f" and must be {COMPACTED}: alter it, or name another with option decisionTopic"
            )
