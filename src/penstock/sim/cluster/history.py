"""What clients of a cluster asked for and were told: what must be true at the end follows from it.

A topic has one client that changes it, one request after the other. Of a request without a certain
answer nobody knows whether it was done, or will be done later: it may wait in a node that is
paused. So what it asked for stays possible for good.
"""

from dataclasses import dataclass, field
from enum import Enum

from penstock.model.identity import TopicId, TopicPartition
from penstock.sim.errors import Violation


class Presence(Enum):
    ASKED = "asked for"  # its creation has no certain answer
    THERE = "created"
    LEAVING = "its deletion asked for"  # without a certain answer
    GONE = "deleted"


@dataclass(slots=True, kw_only=True)
class TopicHistory:
    name: str
    partitions: int  # as many as were acked
    replicas: int
    settings: dict[str, str]  # as acked
    presence: Presence = Presence.ASKED
    topic_id: TopicId | None = None  # as the ack told
    creations: int = 0  # requests
    partitions_asked: set[int] = field(default_factory=set)  # without a certain answer
    settings_asked: dict[str, set[str]] = field(default_factory=dict)  # likewise

    @property
    def is_certain(self) -> bool:
        return self.presence is Presence.THERE

    @property
    def must_be_gone(self) -> bool:
        """A creation that was asked for twice may be done again after the deletion."""
        return self.presence is Presence.GONE and self.creations == 1

    def is_another(self, topic_id: TopicId) -> bool:
        """Whether that is the one that was created after the deletion, by a request under way."""
        return self.presence is not Presence.THERE and self.topic_id not in (None, topic_id)

    @property
    def partition_counts(self) -> set[int]:
        """Those that are possible: their number only grows."""
        return {self.partitions, *(n for n in self.partitions_asked if n > self.partitions)}

    def values_of(self, setting: str) -> set[str]:
        return {self.settings[setting], *self.settings_asked.get(setting, ())}


class Outcome(Enum):
    """Of a transaction."""

    OPEN = "open"  # nobody has asked for a commit: none of its records counts
    ASKED = "commit asked for"  # without a certain answer
    COMMITTED = "committed"


@dataclass(slots=True, kw_only=True)
class TransactionHistory:
    name: str
    values: frozenset[bytes]  # of its records, each in another partition
    outcome: Outcome = Outcome.OPEN

    def check(self, seen: frozenset[bytes]) -> None:
        """`seen` is what a reader of committed records found of it."""
        missing = self.values - seen
        if self.outcome is Outcome.COMMITTED and missing:
            raise Violation("transactions", f"{self.name} was committed, and lacks {missing}")
        if self.outcome is Outcome.OPEN and seen:
            raise Violation("transactions", f"{self.name} was not committed, and has {seen}")
        if seen and missing:
            raise Violation("transactions", f"{self.name} has {seen}, and lacks {missing}")


class ClusterHistory:
    def __init__(self) -> None:
        self.topics: dict[str, TopicHistory] = {}
        self.creators: dict[str, list[str]] = {}  # of topics that several try to create: the acked
        self.records: dict[TopicPartition, dict[int, bytes]] = {}  # acked or read, by offset
        self.acked_offsets: dict[TopicPartition, set[int]] = {}  # of those
        self.unplaced: dict[TopicPartition, list[bytes]] = {}  # acked without an offset
        self.transactions: dict[str, TransactionHistory] = {}
        self.commits: dict[str, dict[int, bool]] = {}  # by group: offsets, and whether acked
        # Partitions whose acked records may be gone, as all who had them have lost power.
        self.may_have_lost: set[TopicPartition] = set()
        # Replicas, by machine, in which a bit has flipped: one of each partition at most.
        self.damaged: dict[TopicPartition, str] = {}
        self.admin_acks = 0
        self.commit_acks = 0  # of transactions and offsets
        self.record_acks = 0

    @property
    def acks(self) -> int:
        return self.admin_acks + self.record_acks + self.commit_acks

    def living(self, prefix: str) -> list[TopicHistory]:
        """Topics of one client that are there for certain."""
        return [
            topic
            for topic in self.topics.values()
            if topic.name.startswith(prefix) and topic.is_certain
        ]

    def created_by(self, name: str, client: str) -> None:
        """One of several that try to create the same topic was told that it has done so."""
        creators = self.creators.setdefault(name, [])
        creators.append(client)
        self.admin_acks += 1
        if len(creators) > 1:
            raise Violation("done twice", f"{name} was created for each of {creators}")

    def offsets_of(self, group: str) -> set[int]:
        """What may be committed: the last that was acked, or any that has no certain answer."""
        commits = self.commits[group]
        acked = [offset for offset, was_acked in commits.items() if was_acked]
        return {
            *acked[-1:],
            *(offset for offset, was_acked in commits.items() if not was_acked),
        }

    def acked(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        self.record_acks += 1
        self.acked_offsets.setdefault(partition, set()).add(offset)
        self.seen(partition, offset, value)

    def acked_somewhere(self, partition: TopicPartition, value: bytes) -> None:
        """As a duplicate that its leader knows by the sequence alone."""
        self.record_acks += 1
        self.unplaced.setdefault(partition, []).append(value)

    def seen(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """By a producer whose ack names the offset, or by a reader."""
        known = self.records.setdefault(partition, {}).setdefault(offset, value)
        if known != value and partition not in self.may_have_lost:
            raise Violation(
                "offsets", f"{partition} has {value!r} at {offset}, where {known!r} was before"
            )
