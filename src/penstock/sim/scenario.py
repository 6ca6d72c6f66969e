"""What one seed asks for: settings, clients and faults, all drawn before anything runs.

Each seed draws which kinds of fault it has at all, so that some runs have one kind in plenty
instead of all having a little of each. A seed that found a bug is kept in the tests for what it
draws, so what is drawn here changes seldom: something new draws from a stream of its own.
"""

from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.entropy import stream
from penstock.sim.transacting.plan import (
    ACK_FSYNC,
    BROKER_SETTINGS,
    TransactionPlan,
    draw_transactions,
)

FLUSH_MESSAGES = "flush.messages"


class FaultKind(Enum):
    KILL = "kill"
    POWER_LOSS = "power loss"
    KILL_IN_A_CALL = "kill in a call"
    POWER_LOSS_IN_A_CALL = "power loss in a call"
    STOP = "stop"  # clean
    SLOW_DISK = "slow disk"
    FULL_DISK = "full disk"
    FAILING_SYNC = "failing sync"
    FLIPPED_BIT = "flipped bit"
    RESET = "reset"
    HALF_OPEN = "half-open"
    SLOW_NETWORK = "slow network"
    CLOCK_JUMP = "clock jump"
    CLIENT_CRASH = "client crash"


KILLS = {
    FaultKind.POWER_LOSS: FaultKind.KILL,
    FaultKind.POWER_LOSS_IN_A_CALL: FaultKind.KILL_IN_A_CALL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    at_ms: int
    kind: FaultKind
    amount: float  # how much, how long, which one: from 0 up to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    name: str
    partitions: int
    settings: dict[str, str]

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.settings.get("cleanup.policy", "")

    @property
    def retention_ms(self) -> int | None:
        return self._limit("retention.ms")

    @property
    def retention_bytes(self) -> int | None:
        return self._limit("retention.bytes")

    @property
    def acks_last(self) -> bool:
        """Whether an ack promises that the record survives a power loss."""
        return self.settings.get(ACK_FSYNC) == "true" or self.settings.get(FLUSH_MESSAGES) == "1"

    def _limit(self, name: str) -> int | None:
        """As it is set; where it is not, no run lasts long enough."""
        return int(self.settings[name]) if name in self.settings else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    broker_settings: dict[str, str]
    topics: tuple[TopicPlan, ...]
    producers: int
    readers: int
    has_admin: bool
    committers: int
    offsets_settings: dict[str, str]  # of the topic that holds committed offsets
    records_each: int
    duration_ms: int
    short_chance: float
    faults: tuple[Fault, ...]
    codec: int
    value_bytes_max: int  # beyond a sector, one batch lies in several and can be torn
    transactions: TransactionPlan | None = None

    @property
    def lasting(self) -> frozenset[str]:
        """The topics whose acks promise that records survive a power loss."""
        lasting = {topic.name for topic in self.topics if topic.acks_last}
        if self.offsets_settings.get(ACK_FSYNC) == "true":
            lasting.add(OFFSETS_TOPIC)
        if self.transactions is not None and self.transactions.acks_last:
            lasting.update(topic.name for topic in self.transactions.topics)
            lasting.add(TRANSACTION_TOPIC)
        return frozenset(lasting)


def draw(
    seed: int,
    kinds: tuple[FaultKind, ...] | None = None,
    *,
    transactions: bool | None = None,
) -> Scenario:
    """What the seed asks for. With these kinds of fault alone, if any are given; then with
    transactions only if these are asked for, otherwise unless they are refused.
    """
    transactions = kinds is None if transactions is None else transactions
    chance = stream(seed, "scenario")
    duration_ms = chance.choice((1_500, 3_000, 6_000))
    topics = [_topic(chance, "orders")]
    if chance.random() < 0.4:
        topics.append(_topic(chance, "audit"))
    if chance.random() < 0.4:
        topics.append(_compacted(chance, "state"))
    drawn = Scenario(
        seed=seed,
        broker_settings=_broker_settings(chance),
        topics=tuple(topics),
        producers=chance.choice((1, 1, 2)),
        readers=chance.choice((0, 1, 1)),
        has_admin=chance.random() < 0.5,
        committers=0,
        offsets_settings={},
        records_each=chance.choice((20, 40, 80)),
        duration_ms=duration_ms,
        short_chance=chance.choice((0.0, 0.0, 0.2)),
        faults=_faults(chance, duration_ms, kinds),
        codec=chance.choice((0, 0, 1, 3)),
        value_bytes_max=chance.choice((0, 100, 900)),
    )
    drawn = _with_retention(stream(seed, "retention of records"), drawn)
    drawn = _with_commits(stream(seed, "commits"), drawn)
    if not transactions:
        return drawn
    return _with_transactions(stream(seed, "transactions"), drawn, kinds)


def with_transactions(
    scenario: Scenario, chance: Random, kinds: tuple[FaultKind, ...] | None = None
) -> Scenario:
    """The same, with applications that work in transactions. Mostly they have it to themselves."""
    plan = draw_transactions(chance)
    alone = chance.random() < 0.7
    faults = scenario.faults
    if not plan.acks_last and chance.random() < 0.8:
        # Else a power loss ends all promises, and what is left to see is that the node lives on.
        milder = {kind: kill for kind, kill in KILLS.items() if kinds is None or kill in kinds}
        faults = tuple(replace(fault, kind=milder.get(fault.kind, fault.kind)) for fault in faults)
    return replace(
        scenario,
        broker_settings={**scenario.broker_settings, **BROKER_SETTINGS},
        offsets_settings={**scenario.offsets_settings, ACK_FSYNC: str(plan.acks_last).lower()},
        producers=0 if alone else scenario.producers,
        readers=0 if alone else scenario.readers,
        has_admin=scenario.has_admin and not alone,
        committers=0 if alone else scenario.committers,
        faults=faults,
        transactions=plan,
    )


def _topic(chance: Random, name: str) -> TopicPlan:
    settings = {
        "internal.segment.bytes": str(chance.choice((300, 700, 2_000, 100_000))),
        "index.interval.bytes": str(chance.choice((0, 100, 4096))),
    }
    if chance.random() < 0.4:
        settings[ACK_FSYNC] = "true"
    if chance.random() < 0.3:
        settings[FLUSH_MESSAGES] = str(chance.choice((1, 5, 20)))
    if chance.random() < 0.2:
        settings["message.timestamp.type"] = "LogAppendTime"
    return TopicPlan(name=name, partitions=chance.choice((1, 1, 2, 3)), settings=settings)


def _compacted(chance: Random, name: str) -> TopicPlan:
    plan = _topic(chance, name)
    settings = {
        **plan.settings,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(chance.choice((0, 500, 86_400_000))),
        "internal.segment.bytes": str(chance.choice((300, 700))),
    }
    return replace(plan, settings=settings)


def _with_retention(chance: Random, scenario: Scenario) -> Scenario:
    """Some scenarios have topics that forget."""
    if chance.random() < 0.6:
        return scenario
    interval_ms = chance.choice((50, 200, 1_000))
    return replace(
        scenario,
        broker_settings={
            **scenario.broker_settings,
            "log.retention.check.interval.ms": str(interval_ms),
        },
        topics=tuple(_forgetful(chance, topic) for topic in scenario.topics),
    )


def _forgetful(chance: Random, topic: TopicPlan) -> TopicPlan:
    settings = {
        **topic.settings,
        "file.delete.delay.ms": str(chance.choice((0, 300, 60_000))),
    }
    which = chance.choice(("time", "time", "size", "both", "neither"))
    if which in ("time", "both"):
        settings["retention.ms"] = str(chance.choice((0, 300, 1_000, 3_000)))
    if which in ("size", "both"):
        settings["retention.bytes"] = str(chance.choice((0, 500, 1_500, 5_000)))
    if topic.is_compacted and which != "neither":
        settings["cleanup.policy"] = "compact,delete"
    return replace(topic, settings=settings)


def _with_commits(chance: Random, drawn: Scenario) -> Scenario:
    """Small segments, soon compacted, so that a run of seconds replays what compaction left."""
    settings = {
        "internal.segment.bytes": str(chance.choice((300, 1_000, 100_000))),
        "min.cleanable.dirty.ratio": "0.1",
        ACK_FSYNC: chance.choice(("true", "false")),
    }
    return replace(drawn, committers=chance.choice((0, 1, 2)), offsets_settings=settings)


def _with_transactions(
    chance: Random, drawn: Scenario, kinds: tuple[FaultKind, ...] | None
) -> Scenario:
    return with_transactions(drawn, chance, kinds) if chance.random() < 0.5 else drawn


def _broker_settings(chance: Random) -> dict[str, str]:
    return {
        "offsets.topic.num.partitions": "2",
        "log.cleaner.backoff.ms": str(chance.choice((100, 500))),
        "log.flush.offset.checkpoint.interval.ms": str(chance.choice((1_000, 3_000, 60_000))),
        # A snapshot of the metadata after every few changes, so that crashes hit them.
        "metadata.log.max.record.bytes.between.snapshots": "1000",
    }


def _faults(
    chance: Random, duration_ms: int, given: tuple[FaultKind, ...] | None
) -> tuple[Fault, ...]:
    drawn = tuple(kind for kind in FaultKind if chance.random() < 0.35)
    kinds = drawn if given is None else given
    if not kinds:
        return ()
    count = chance.randint(1, 5)
    return tuple(
        sorted(
            (
                Fault(
                    at_ms=chance.randint(50, duration_ms),
                    kind=chance.choice(kinds),
                    amount=chance.random(),
                )
                for _ in range(count)
            ),
            key=lambda fault: fault.at_ms,
        )
    )
