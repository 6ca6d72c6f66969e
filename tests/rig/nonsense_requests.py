"""Requests that are well formed and make little sense: fields drawn from what nobody should send.

Negative and huge numbers, nulls, names twice over, ids and sessions of others. A request may be
absurd through and through, or in one field of many, so that it gets past the first check. What is
drawn hangs on the dice and on what replies told, so a seed tells nearly the whole story.
"""

import random
import struct
from dataclasses import dataclass, field

from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.records.build import build_batch
from penstock.records.checksum import crc32c
from penstock.records.record import Record
from penstock.wire.definition import Field, Kind, Message, Struct

NAMES = ["t", "u", "t", "u", "none", "__consumer_offsets", "__cluster_metadata", "..", "a/b", "",
         "x" * 249, "x" * 300, "x" * 32767]  # fmt: skip
WORDS = ["", "a", "1", "-1", "é\0", "99999999999999999999", "compact", "delete", "broker",
         "retention.ms", "max.message.bytes", "cleanup.policy", "segment.bytes", "flush.messages",
         "min.insync.replicas", "log.cleaner.threads", "compression.type", "zstd", "range",
         "uniform", "consumer", "t.*", "(", "Stable", "x" * 32767, "é" * 16383]  # fmt: skip
GROUPS = ["g", "h", "g", "h", "none", "", "x" * 32767]
GROUPING = frozenset({"group_id", "group_ids", "groups", "groups_names", "key", "coordinator_keys"})
NAMING = frozenset({"name", "topic", "topic_name", "topics", "topic_names", "resource_name",
                    "subscribed_topic_names"})  # fmt: skip
BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
# Where a field of a batch stands and how wide it is: see records/layout.
BATCH_FIELDS = [(21, "h"), (23, "i"), (27, "q"), (35, "q"), (43, "q"), (51, "h"), (53, "i"),
                (57, "i")]  # fmt: skip
CHECKSUM_AT, CHECKED_FROM = 17, 21
# What would be honoured at length: a large number of partitions, a long wait.
MODEST = {"num_partitions": 3, "count": 4, "max_wait_ms": 30, "timeout_ms": 30}
# What gets a request past the first checks.
SANE = {"acks": -1, "timeout_ms": 30, "replica_id": -1, "max_wait_ms": 10, "min_bytes": 1,
        "max_bytes": 10_000, "partition_max_bytes": 1000, "current_leader_epoch": -1,
        "last_fetched_epoch": -1, "leader_epoch": -1, "num_partitions": 2,
        "replication_factor": 1, "resource_type": 2, "timestamp": 0, "session_timeout_ms": 20,
        "rebalance_timeout_ms": 20}  # fmt: skip
SANE_WORDS = {"protocol_type": "consumer", "protocol_name": "t"}
GENERATIONS = frozenset({"generation_id", "generation_id_or_member_epoch", "member_epoch"})
WILDNESS = [0.05, 0.1, 0.3, 1.0]  # how often a field of a request is drawn absurdly
NOW_MS = 1_700_000_000_000


@dataclass(slots=True)
class Absurd:
    """Draws requests; what replies tell of ids and sessions may be added to be drawn too."""

    dice: random.Random
    topic_ids: list[bytes] = field(default_factory=lambda: [bytes(16), b"\7" * 16])
    sessions: list[int] = field(default_factory=lambda: [0])
    member_ids: list[str] = field(default_factory=lambda: ["", ""])
    _wildness: float = 1.0

    def message(self, cls: type[Message], version: int) -> Message:
        self._wildness = self.dice.choice(WILDNESS)
        drawn = self._struct(cls, version)
        assert isinstance(drawn, Message)
        return drawn

    def client_id(self) -> str | None:
        return self.dice.choice([None, "", "absurd", "absurd", "absurd", "c" * 32767, "é" * 16383])

    def _struct(self, cls: type[Struct], version: int) -> Struct:
        return cls(
            **{
                one.name: self._value(one, version, one.name)
                for one in cls.FIELDS
                if version in one.versions
            }
        )

    def _value(self, one: Field, version: int, name: str) -> object:
        dice = self.dice
        wild = dice.random() < self._wildness
        if wild and one.nullable_in(version) and dice.random() < 0.3:
            return None
        match one.kind:
            case Kind.BOOL:
                return dice.random() < 0.5
            case Kind.UINT16:
                return dice.choice([0, 1, 65535])
            case Kind.FLOAT64:
                return dice.choice([0.0, -1.0, float("inf"), float("nan")])
            case Kind.UUID:
                return dice.choice(self.topic_ids if wild else self.topic_ids[-2:])
            case Kind.STRING:
                return self._text(one, name, wild=wild)
            case Kind.BYTES:
                return dice.choice([b"", b"abc"])
            case Kind.RECORDS:
                return self._records(wild=wild)
            case Kind.STRUCT:
                assert one.struct is not None
                return self._struct(one.struct, version)
            case Kind.ARRAY:
                assert one.element is not None
                sane = 0 if name in ("configs", "assignments") else 1
                count = dice.choice([0, 1, 2, 3]) if wild else sane
                return [self._value(one.element, version, name) for _ in range(count)]
            case _:
                return self._number(BITS[one.kind], name) if wild else self._sane(one)

    def _text(self, one: Field, name: str, *, wild: bool) -> object:
        dice = self.dice
        if name in GROUPING:
            return dice.choice(GROUPS if wild else GROUPS[:2])
        if name in NAMING:
            return dice.choice(NAMES if wild else NAMES[:2])
        if wild:
            return dice.choice(WORDS)
        if name == "member_id":
            return dice.choice(self.member_ids)
        return SANE_WORDS.get(name, one.default)

    def _sane(self, one: Field) -> int:
        if one.name == "session_id":
            return self.dice.choice(self.sessions[-2:])
        if one.name == "session_epoch":
            return self.dice.choice([-1, 0, 0, 1, 1, 2, 3])
        if one.name in GENERATIONS:
            return self.dice.choice([-1, 0, 0, 1, 2, 3, 4])
        default = one.default if isinstance(one.default, int) else 0
        return SANE.get(one.name, default)

    def _number(self, bits: int, name: str) -> int:
        dice = self.dice
        highest = (1 << bits - 1) - 1
        chance = dice.random()
        if chance < 0.6:
            number = dice.choice([0, 0, 0, 1, 1, -1, 2, 3])
        elif chance < 0.75:
            number = dice.choice([-2, -3, -4, -5, -6, 5, 7, 100])
        else:
            number = dice.choice([highest, -highest - 1, highest // 2, 1000, 1_000_000])
        if name == "max_wait_ms" or (name in MODEST and 0 < number < highest):
            # A fetch that finds nothing would wait for as long as it may.
            return min(number, MODEST[name])
        return max(-highest - 1, min(number, highest))

    def _records(self, *, wild: bool) -> bytes:
        """A batch: sound, or with a wild field in its header, or with bytes of it changed."""
        dice = self.dice
        if not wild:
            return bytes(build_batch([Record(b"k", b"v", timestamp_ms=NOW_MS)]))
        count = dice.choice([1, 1, 2, 5])
        data = build_batch(
            [
                Record(
                    dice.choice([None, b"k"]),
                    dice.choice([None, b"v" * dice.choice([1, 300])]),
                    timestamp_ms=dice.choice([NOW_MS, NOW_MS + index, 0, -1]),
                )
                for index in range(count)
            ],
            producer_id=ProducerId(dice.choice([-1, -1, 1, 2, -5, 2**62])),
            producer_epoch=ProducerEpoch(dice.choice([-1, 0, 1, 32767])),
            base_sequence=dice.choice([-1, 0, 1, 2**31 - 1]),
            transactional=dice.random() < 0.1,
        )
        chance = dice.random()
        if chance < 0.2:
            for _ in range(dice.choice([1, 2, 5])):
                data[dice.randrange(len(data))] = dice.randrange(256)
        elif chance < 0.5:
            position, width = dice.choice(BATCH_FIELDS)
            drawn = self._number(8 * struct.calcsize(f">{width}"), "")
            struct.pack_into(f">{width}", data, position, drawn)
            checksum = crc32c(memoryview(data)[CHECKED_FROM:])
            struct.pack_into(">I", data, CHECKSUM_AT, checksum)
        return bytes(data) * dice.choice([1, 1, 1, 1, 2])
