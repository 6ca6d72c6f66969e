"""What a seed asks of transactions: applications, their topics, and how the coordinator is set.

An application is a transactional id that one or several instances use, each of which fences those
before it. One with a source reads it and commits its offsets within its transactions; one without
only writes. The topics are theirs alone: nobody deletes records of them, nor do these expire, so
all that was committed must be there.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random

from penstock.model.identity import TopicPartition

SOURCE = "tx-source"
PREFIX = "tx-"
ACK_FSYNC = "penstock.ack.fsync"


class Style(Enum):
    """How an application speaks with the coordinator."""

    GENERATION_1 = 1  # keeps its epoch, and adds partitions before it writes to them
    GENERATION_2 = 2  # a new epoch for each transaction (KIP-890)
    TWO_PHASE = 3  # generation 2, and a database decides what becomes of a transaction (KIP-939)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTopic:
    name: str
    partitions: int
    settings: dict[str, str]

    @property
    def places(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.name, index) for index in range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    transactional_id: str  # and the name of its group
    style: Style
    instances: int
    reads: bool  # whether it has a source
    timeout_ms: int
    request_ms_max: int  # how long it waits before it asks again
    stall_chance: float  # of a transaction that its instance sleeps in, for as long as the time-out
    pause_ms: int  # between transactions, at most
    write_pause_ms: int = 0  # between two batches for one partition, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPlan:
    topics: tuple[TransactionTopic, ...]
    applications: tuple[Application, ...]
    state_settings: dict[str, str]  # of the topic that holds the state of transactions
    inputs: int  # records in each partition of the source
    acks_last: bool  # through a power loss

    @property
    def places(self) -> tuple[TopicPartition, ...]:
        return tuple(place for topic in self.topics for place in topic.places)

    @property
    def source(self) -> TransactionTopic:
        return next(topic for topic in self.topics if topic.name == SOURCE)

    @property
    def targets(self) -> tuple[TransactionTopic, ...]:
        return tuple(topic for topic in self.topics if topic.name != SOURCE)


BROKER_SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.two.phase.commit.enable": "true",
}


def draw_transactions(chance: Random) -> TransactionPlan:
    acks_last = chance.random() < 0.6
    topics = [_topic(chance, SOURCE, acks_last), _topic(chance, "tx-target", acks_last)]
    if chance.random() < 0.6:
        topics.append(_topic(chance, "tx-other", acks_last))
    applications = [_application(chance, n) for n in range(chance.choice((1, 1, 2, 3)))]
    return TransactionPlan(
        topics=tuple(topics),
        applications=tuple(applications),
        state_settings={
            "internal.segment.bytes": str(chance.choice((300, 1_000, 100_000))),
            "min.cleanable.dirty.ratio": "0.1",
            ACK_FSYNC: str(acks_last).lower(),
        },
        inputs=chance.choice((20, 60, 120)),
        acks_last=acks_last,
    )


def _topic(chance: Random, name: str, acks_last: bool) -> TransactionTopic:
    settings = {
        "internal.segment.bytes": str(chance.choice((1_500, 4_000, 100_000))),
        "index.interval.bytes": str(chance.choice((0, 100, 4096))),
        ACK_FSYNC: str(acks_last).lower(),
    }
    if name != SOURCE and chance.random() < 0.3:
        # No two records have one key: what is committed stays, and the rest may go.
        settings |= {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": str(chance.choice((0, 500, 86_400_000))),
            "internal.segment.bytes": "1500",
        }
    return TransactionTopic(name=name, partitions=chance.choice((1, 2, 3)), settings=settings)


def _application(chance: Random, number: int) -> Application:
    style = chance.choice(
        (Style.GENERATION_1, Style.GENERATION_2, Style.GENERATION_2, Style.TWO_PHASE)
    )
    # One of generation 1 cannot tell a late request of its last transaction from one of the next.
    request_ms_max = 10_000 if style is Style.GENERATION_1 else chance.choice((40, 500, 10_000))
    return Application(
        transactional_id=f"app-{number}",
        style=style,
        instances=chance.choice((1, 1, 2, 3)),
        reads=chance.random() < 0.7,
        timeout_ms=chance.choice((200, 1_000, 5_000)),
        request_ms_max=request_ms_max,
        stall_chance=chance.choice((0.0, 0.05, 0.2)),
        pause_ms=chance.choice((0, 20, 100)),
    )
