"""A coordinator's shard on a real host, with a journal in memory and a clock that tests move."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.groups.decide import decide, decide_due
from penstock.groups.decision_context import DecisionContext
from penstock.groups.rebalance_causes import (
    MAY_REBALANCE,
    Generation,
    Rebalance,
    causes,
    noted,
)
from penstock.groups.records import (
    GroupRecord,
    TransactionalOffset,
    TransactionEnded,
    decode,
    encode,
)
from penstock.groups.requests import Asked, Deliver, NotStored, Parked
from penstock.groups.shard import GroupShard
from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed, Host
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.limit import DECISION_BYTES_MAX
from penstock.model.offset import LeaderEpoch, Offset
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.groups import GroupSettings

RETRY_MS = 1000  # until a timer is tried again whose decision could not be journalled
TIMERS_MAX = 10_000  # that may be due at one time: beyond it, one of them is not taken away


@dataclass
class MemoryJournal:
    """Keeps what a partition would keep: bytes. What is part of a transaction, or ends one, is told
    by more than a key and a value: such records are kept beside, as they are.
    """

    batches: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    of_transactions: dict[int, GroupRecord] = field(default_factory=dict)  # by offset
    error: AppendFailed | None = None

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.batches))

    def append(self, records: Sequence[GroupRecord]) -> None:
        if self.error is not None:
            raise self.error
        encoded: list[tuple[bytes, bytes | None]] = []
        of_transactions: dict[int, GroupRecord] = {}
        for offset, record in enumerate(records, self.end_offset):
            if isinstance(record, TransactionalOffset | TransactionEnded):
                of_transactions[offset] = record
                encoded.append((b"", None))
            else:
                encoded.append(encode(record))
        if sum(len(key) + len(value or b"") for key, value in encoded) > DECISION_BYTES_MAX:
            raise AppendFailed("one batch does not hold it", NotDone.TOO_LARGE)
        self.batches += encoded
        self.of_transactions |= of_transactions

    def records(self) -> list[GroupRecord]:
        decoded = [
            self.of_transactions.get(offset) or decode(key, value)
            for offset, (key, value) in enumerate(self.batches)
        ]
        return [record for record in decoded if record is not None]


def image_of(topics: Mapping[str, int]) -> Image:
    """A cluster of one node with these topics, by their numbers of partitions."""
    node = NodeId(1)
    partition = PartitionImage(
        replicas=(node,), isr=(node,), leader=node, leader_epoch=LeaderEpoch(0), partition_epoch=0
    )
    images = [
        TopicImage(
            name=name,
            topic_id=TopicId(number.to_bytes(16, "big")),
            partitions=(partition,) * count,
        )
        for number, (name, count) in enumerate(topics.items(), start=1)
    ]
    return Image(
        topics_by_name={topic.name: topic for topic in images},
        topics_by_id={topic.topic_id: topic for topic in images},
    )


class GroupWorld:
    """`ask` gives a ticket; `answers` has what was answered to it, once it was."""

    def __init__(self, settings: Mapping[str, str] | None = None, image: Image | None = None):
        self.settings: GroupSettings = parse_broker(dict(settings or {})).groups
        self.image = image or image_of({"t": 1})
        self.may_describe: Callable[[str], bool] | None = None  # whoever asks
        self.now_ms = 1_700_000_000_000
        self.monotonic_ms = 0
        self.journal = MemoryJournal()
        self.answers: dict[int, object] = {}
        self.parked: dict[int, object] = {}  # ticket -> request
        self.causes: list[Rebalance | Generation] = []  # what a coordinator would log
        self._tickets = 0
        self._ids = 0
        self._begin()

    def context(self) -> DecisionContext:
        return DecisionContext(
            image=self.image,
            settings=self.settings,
            now_ms=self.now_ms,
            monotonic_ms=self.monotonic_ms,
            fresh_id=self._fresh_id,
            members_on_node=0,
            may_describe=self.may_describe,
        )

    def ask(self, request: object, *, version: int, client_id: str = "client") -> int:
        self._tickets += 1
        ticket = self._tickets
        asked = Asked(
            request=request,
            version=version,
            ticket=ticket,
            client_id=client_id,
            client_host="/127.0.0.1",
        )

        def answer(reply: object) -> None:
            if isinstance(reply, Parked):
                self.parked[ticket] = request
            else:
                self.answers[ticket] = reply

        watched = request.group_id if isinstance(request, MAY_REBALANCE) else None
        before = None if watched is None else noted(self.shard.groups.get(watched), request)
        self._submit(lambda: decide(self.shard, self.context(), asked), answer)
        if watched is not None:
            self.causes += causes(before, self.shard.groups.get(watched), request)
        if self.answers.get(ticket) in (NotDone.APPEND_FAILED, NotDone.TOO_LARGE):
            self._tell_that_nothing_was_stored(asked)
        return ticket

    def pass_time(self, ms: int) -> None:
        """Time goes by, from one deadline to the next."""
        end_ms = self.monotonic_ms + ms
        while True:
            all_done = self._run_due_timers()
            next_ms = self.shard.deadlines.next_ms()
            if not all_done:
                next_ms = self.monotonic_ms + RETRY_MS
            if next_ms is None or next_ms > end_ms:
                break
            self._move_to(next_ms)
        self._move_to(end_ms)

    def fail_over(self) -> None:
        """Another node leads now: it has the journal, and nothing else."""
        self.host.lose_leadership()
        for ticket in self.parked:
            self.answers[ticket] = NotDone.LEADERSHIP_LOST
        self.parked.clear()
        self._begin()

    def check(self) -> None:
        self.host.check()
        self.shard.check()

    def _begin(self) -> None:
        self.shard = GroupShard()
        self.host: Host[GroupRecord, object] = Host(
            journal=self.journal,
            machine=self.shard,
            watermark=Offset(0),
            carry_out=self._carry_out,
        )
        self.host.replay(self.journal.records(), next_offset=self.journal.end_offset)
        self.host.opened()
        self.host.advance(self.journal.end_offset)
        self.shard.loaded(self.context(), tuple(self.shard.groups.values()))

    def _submit(
        self,
        decide: Callable[[], Decision[GroupRecord, object]],
        answer: Callable[[object], None],
    ) -> None:
        self.host.submit(decide, deadline_ms=self.monotonic_ms + 5000, answer=answer)
        self.host.advance(self.host.applied_offset)
        self.check()

    def _run_due_timers(self) -> bool:
        """Whether the journal took what came of them."""
        for _ in range(TIMERS_MAX):
            decided = decide_due(self.shard, self.context())
            if decided is None:
                return True
            answers: list[object] = []
            key = self.shard.deadlines.due(self.monotonic_ms)
            group = getattr(key, "group", "")
            before = noted(self.shard.groups.get(group), key)
            self._submit(partial(_itself, decided), answers.append)
            self.causes += causes(before, self.shard.groups.get(group), key)
            if isinstance(answers[0], NotDone):
                return False
        raise AssertionError(f"{self.shard.deadlines.due(self.monotonic_ms)} is due for ever")

    def _tell_that_nothing_was_stored(self, asked: Asked[object]) -> None:
        failed = NotStored(request=asked.request, code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        told = replace(asked, request=failed)
        self._submit(lambda: decide(self.shard, self.context(), told), lambda _: None)

    def _carry_out(self, effect: object) -> None:
        assert isinstance(effect, Deliver), effect
        assert effect.ticket in self.parked, "an answer for nobody"
        del self.parked[effect.ticket]
        self.answers[effect.ticket] = effect.reply

    def _move_to(self, monotonic_ms: int) -> None:
        self.now_ms += monotonic_ms - self.monotonic_ms
        self.monotonic_ms = monotonic_ms

    def _fresh_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"


def _itself(decision: Decision[GroupRecord, object]) -> Decision[GroupRecord, object]:
    return decision
