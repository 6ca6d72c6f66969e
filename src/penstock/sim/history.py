"""What clients asked for and were told: the ground on which the checkers judge.

    sent        every record that left a client, by its value, which is unique
    acked       where the node said a record lies; it must lie there, until something takes it
    seen        what readers were handed at an offset; no other reader may be handed another

Three things take records by right: a deletion that a client asked for, the end of a topic, and,
without fsync acks, a power loss, from the first offset on that was not synced.
"""

from dataclasses import dataclass, field

from penstock.model.identity import TopicPartition
from penstock.sim.trouble import Violation

NEVER = 2**63


@dataclass(slots=True, kw_only=True)
class Sent:
    """One record; `generation` counts how often its topic had been made when it was sent."""

    producer: str
    number: int
    topic: str
    generation: int
    key: bytes
    value: bytes
    acked: bool = False

    def __str__(self) -> str:
        return f"{self.producer}/{self.number}"


@dataclass(slots=True, kw_only=True)
class PartitionHistory:
    acked: dict[int, bytes] = field(default_factory=dict)  # values by offset
    seen: dict[int, bytes] = field(default_factory=dict)
    deletion_asked: int = 0  # records below may be gone
    deletion_acked: int = 0  # records below must be gone
    synced_offset: int = 0  # the log has claimed that all below lasts
    damaged_from: int = NEVER  # a bit flipped here

    def lose_from(self, offset: int) -> None:
        """What lies there may be gone, and its offsets given to others."""
        self.acked = {at: value for at, value in self.acked.items() if at < offset}
        self.seen = {at: value for at, value in self.seen.items() if at < offset}


class History:
    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.generations: dict[str, int] = {}
        self.topics: dict[str, bool | None] = {}  # whether it is there; None while nobody knows
        self.settings: dict[str, dict[str, str | None]] = {}  # as acked; None while nobody knows
        self.uncertain: set[str] = set()  # topics of which nobody knows whether they were deleted
        self.acks = 0

    def of(self, partition: TopicPartition) -> PartitionHistory:
        known = self.partitions.get(partition)
        if known is None:
            known = self.partitions[partition] = PartitionHistory()
        return known

    def send(
        self, *, producer: str, number: int, topic: str, key: bytes, padding_bytes: int = 0
    ) -> Sent:
        value = f"{producer}/{number}".encode() + b"." * padding_bytes
        assert value not in self.sent, value
        sent = Sent(
            producer=producer,
            number=number,
            topic=topic,
            generation=self.generations.get(topic, 0),
            key=key,
            value=value,
        )
        self.sent[value] = sent
        return sent

    def ack(self, sent: Sent, partition: TopicPartition, offset: int | None) -> None:
        self.acks += 1
        sent.acked = True
        if offset is None or sent.generation != self.generations.get(sent.topic, 0):
            return
        history = self.of(partition)
        before = history.acked.get(offset, history.seen.get(offset))
        if before is not None and before != sent.value:
            raise Violation(
                "offsets",
                f"{partition} gave offset {offset} to {sent.value!r}, where {before!r} lies",
            )
        history.acked[offset] = sent.value

    def see(self, partition: TopicPartition, offset: int, value: bytes | None) -> None:
        """A reader was handed a record."""
        sent = None if value is None else self.sent.get(value)
        if sent is None or value is None:
            raise Violation(
                "contents", f"{partition} at offset {offset}: {value!r} was sent by nobody"
            )
        if sent.topic != partition.topic:
            raise Violation(
                "contents", f"{partition} at offset {offset}: {value!r} was sent to {sent.topic}"
            )
        if sent.generation != self.generations.get(sent.topic, 0):
            raise Violation(
                "contents", f"{partition} at offset {offset}: {value!r} is of a topic deleted since"
            )
        history = self.of(partition)
        before = history.acked.get(offset, history.seen.get(offset))
        if before is not None and before != value:
            raise Violation(
                "contents", f"{partition} at offset {offset}: {value!r}, where {before!r} was"
            )
        history.seen[offset] = value

    def topic_ends(self, name: str) -> None:
        """A deletion was asked for: nothing is promised of its records any more."""
        self.generations[name] = self.generations.get(name, 0) + 1
        self.uncertain.add(name)
        for partition in [one for one in self.partitions if one.topic == name]:
            del self.partitions[partition]

    def restarted(self) -> None:
        """A start may cut a log at a damaged batch, where it looks at it."""
        for partition in self.partitions.values():
            partition.lose_from(partition.damaged_from)

    def power_lost(self, *, lasting: frozenset[str]) -> None:
        """The topics in `lasting` acked only what was synced; the others lose what was not."""
        for partition, history in self.partitions.items():
            if partition.topic not in lasting:
                history.lose_from(history.synced_offset)
