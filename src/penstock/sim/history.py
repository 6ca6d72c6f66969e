"""What clients asked for and were told: the ground on which the checkers judge.

    sent        every record that left a client, by its name, which a header carries
    acked       where the node said a record lies; it must lie there, until something takes it
    seen        what readers were handed at an offset; no other reader may be handed another

Four things take records by right: a deletion that a client asked for, retention (which
`retention_watch` judges), the end of a topic, and, without fsync acks, a power loss, from the first
offset on that was not synced.
"""

from dataclasses import dataclass, field

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.identity import TopicPartition
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.records.record import Headers
from penstock.sim.commit_history import CommitHistory
from penstock.sim.errors import Violation
from penstock.sim.transacting.history import TransactionHistory

NEVER = 2**63
NAME_HEADER = "name"


@dataclass(slots=True, kw_only=True)
class Sent:
    """One record; `generation` counts how often its topic had been made when it was sent."""

    producer: str
    number: int
    topic: str
    generation: int
    key: bytes
    value: bytes | None  # None: a tombstone

    @property
    def name(self) -> str:
        return f"{self.producer}/{self.number}"

    @property
    def headers(self) -> Headers:
        return ((NAME_HEADER, self.name.encode()),)


@dataclass(slots=True, kw_only=True)
class PartitionHistory:
    acked: dict[int, str] = field(default_factory=dict)  # names by offset
    seen: dict[int, str] = field(default_factory=dict)
    deletion_asked: int = 0  # records below may be gone
    deletion_acked: int = 0  # records below must be gone
    expired_until: int = 0  # retention may have taken the records below
    start_seen: int = 0  # the log has begun here, and no earlier ever after
    synced_offset: int = 0  # the log has claimed that all below lasts
    damaged_from: int = NEVER  # a bit flipped here

    @property
    def gone_until(self) -> int:
        """Records below may be gone by right."""
        return max(self.deletion_asked, self.expired_until)

    def lose_from(self, offset: int) -> None:
        """What lies there may be gone, and its offsets given to others."""
        self.acked = {at: name for at, name in self.acked.items() if at < offset}
        self.seen = {at: name for at, name in self.seen.items() if at < offset}


class History:
    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.generations: dict[str, int] = {}
        self.topics: dict[str, bool | None] = {}  # whether it is there; None while nobody knows
        self.settings: dict[str, dict[str, str | None]] = {}  # as acked; None while nobody knows
        self.uncertain: set[str] = set()  # topics of which nobody knows whether they were deleted
        self.commits: dict[str, dict[TopicPartition, CommitHistory]] = {}  # by group
        self.transactions = TransactionHistory()
        self.acks = 0
        self.starts = 0  # of the node

    def of(self, partition: TopicPartition) -> PartitionHistory:
        known = self.partitions.get(partition)
        if known is None:
            known = self.partitions[partition] = PartitionHistory()
        return known

    def commits_of(self, group: str, partition: TopicPartition) -> CommitHistory:
        return self.commits.setdefault(group, {}).setdefault(partition, CommitHistory())

    def send(
        self, *, producer: str, number: int, topic: str, key: bytes, value_bytes: int | None = 0
    ) -> Sent:
        """A record of about so many bytes, or a tombstone."""
        name = f"{producer}/{number}"
        assert name not in self.sent, name
        value = None if value_bytes is None else name.encode() + b"." * value_bytes
        self.sent[name] = sent = Sent(
            producer=producer,
            number=number,
            topic=topic,
            generation=self.generations.get(topic, 0),
            key=key,
            value=value,
        )
        return sent

    def ack(self, sent: Sent, partition: TopicPartition, offset: int | None) -> None:
        self.acks += 1
        if offset is None or sent.generation != self.generations.get(sent.topic, 0):
            return
        history = self.of(partition)
        before = history.acked.get(offset, history.seen.get(offset))
        if before is not None and before != sent.name:
            raise Violation(
                "offsets", f"{partition} gave offset {offset} to {sent.name}, where {before} lies"
            )
        history.acked[offset] = sent.name

    def see(self, record: ConsumedRecord) -> Sent:
        """A reader was handed a record: which one that is."""
        partition, offset = TopicPartition(record.topic, record.partition), record.offset
        here = f"{partition} at offset {offset}"
        name = next((value for header, value in record.headers if header == NAME_HEADER), None)
        sent = None if name is None else self.sent.get(name.decode(errors="replace"))
        if sent is None or (sent.key, sent.value) != (record.key, record.value):
            raise Violation("contents", f"{here}: {name!r} was sent by nobody, or otherwise")
        if sent.topic != partition.topic:
            raise Violation("contents", f"{here}: {sent.name} was sent to {sent.topic}")
        if sent.generation != self.generations.get(sent.topic, 0):
            raise Violation("contents", f"{here}: {sent.name} is of a topic deleted since")
        history = self.of(partition)
        before = history.acked.get(offset, history.seen.get(offset))
        if before is not None and before != sent.name:
            raise Violation("contents", f"{here}: {sent.name}, where {before} was")
        history.seen[offset] = sent.name
        return sent

    def topic_ends(self, name: str) -> None:
        """A deletion was asked for: nothing is promised of its records any more."""
        self.generations[name] = self.generations.get(name, 0) + 1
        self.uncertain.add(name)
        for partition in [one for one in self.partitions if one.topic == name]:
            del self.partitions[partition]

    def restarted(self) -> None:
        """A start may cut a log at a damaged batch, where it looks at it."""
        self.starts += 1
        for partition in self.partitions.values():
            partition.lose_from(partition.damaged_from)
        for commits in self.commits.values():
            for commit in commits.values():
                commit.restarted()

    def power_lost(self, *, lasting: frozenset[str]) -> None:
        """The topics in `lasting` acked only what was synced; the others lose what was not."""
        if TRANSACTION_TOPIC not in lasting:
            self.transactions.nothing_promised = True
        if OFFSETS_TOPIC not in lasting:
            for commits in self.commits.values():
                for commit in commits.values():
                    commit.power_lost()
        for partition, history in self.partitions.items():
            if partition.topic not in lasting:
                history.lose_from(history.synced_offset)
