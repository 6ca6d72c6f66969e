"""What the decision topic says of a sink: one record, the latest of its name.

    CLAIMED     a run writes; whatever an earlier run has not decided it never will
    DECIDED     a batch is these transactions, whether they have ended already or not
    DONE        all of them have been committed

A claim keeps the decision before it: whoever claims has to see it through. It also keeps the runs
that held the sink before, the latest of them, so that none of those claims it back; and a decision
the queries that decided before, as their last batches are no longer known.

The record also says what the run that has claimed gave up: tasks of that batch which write later
see it, and end what they wrote.

It is JSON. Transactions are rows of what tells them apart, as there may be 20,000 of them:

    prefix      what all transactional ids begin with
    topics      the topics of witnesses
    rows        [rest of the id, producer id less that of the row before, epoch,
                 and where there is a witness: index of its topic, partition, offset]

Version 1 has a list of whole rows instead: [id, producer id, epoch, topic, partition, offset].
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.error import PenstockError
from penstock.spark.sink.names import run_of

VERSION = 2
VERSIONS = (1, VERSION)  # that can be read
FORMER_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who writes: one run of one query, in one place where Spark's driver runs."""

    query_id: str
    run_id: str
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A record batch of a transaction. Behind it stands, sooner or later, how that has ended: of
    all its partitions one is enough, as it is the same in each.
    """

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A transaction that is written whole and left open, by the identity that wrote it."""

    transactional_id: str
    producer_id: int
    epoch: int
    witness: Witness | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """What a run will not decide: this batch, or, where that is None, nothing any more."""

    run_id: str
    batch_id: int | None

    def names(self, run_id: str, batch_id: int) -> bool:
        return self.run_id == run_id and (self.batch_id is None or batch_id <= self.batch_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A batch, and the transactions that are its rows. `two_phase`: none of them times out."""

    query_id: str
    batch_id: int
    transactions: tuple[Prepared, ...]
    two_phase: bool

    def names(self, transactional_id: str) -> bool:
        return any(one.transactional_id == transactional_id for one in self.transactions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    claim: Claim
    decided: Decided | None = None
    is_done: bool = True
    former: tuple[str, ...] = ()  # runs that have been superseded, the latest at the end
    once: bool = False  # a single write: when it is done, the record goes
    former_queries: tuple[str, ...] = ()  # which have decided before the last decision's
    given_up: GivenUp | None = None  # by the run that has claimed

    def claimed_by(self, claim: Claim) -> "SinkRecord":
        return replace(self.without(self.claim.run_id), claim=claim, given_up=None)

    def without(self, run_id: str) -> "SinkRecord":
        """A run that never claims from now on, as others have, or as it has ended before."""
        return replace(self, former=(*self.former, run_id)[-FORMER_MAX:])

    def has_given_up(self, claim: Claim, batch_id: int) -> bool:
        given_up = self.given_up
        return given_up is not None and given_up.names(claim.run_id, batch_id)

    def with_decision(self, decided: Decided) -> "SinkRecord":
        queries = self.former_queries
        if self.decided is not None and self.decided.query_id != decided.query_id:
            queries = (*queries, self.decided.query_id)[-FORMER_MAX:]
        return replace(self, decided=decided, is_done=False, former_queries=queries)

    @property
    def for_tasks(self) -> "SinkRecord":
        """Without the transactions of a decision that is done: every task gets a copy."""
        if self.decided is None or not self.is_done:
            return self
        return replace(self, decided=replace(self.decided, transactions=()))

    @property
    def run_ids(self) -> frozenset[str]:
        """The runs that the record tells of: by its claim, as superseded, or by what they wrote."""
        decided = () if self.decided is None else self.decided.transactions
        wrote = (run_of(one.transactional_id) for one in decided)
        return frozenset((self.claim.run_id, *self.former, *(run for run in wrote if run)))

    @property
    def unfinished(self) -> Decided | None:
        return None if self.is_done else self.decided


class UnreadableDecision(PenstockError):
    """A record in the decision topic that no sink wrote, or one of a later version."""


def encode(record: SinkRecord) -> bytes:
    decided, given_up = record.decided, record.given_up
    return json.dumps(
        {
            "version": VERSION,
            "query": record.claim.query_id,
            "run": record.claim.run_id,
            "driver": record.claim.driver,
            "decided": decided
            and {
                "query": decided.query_id,
                "batch": decided.batch_id,
                "transactions": _packed(decided.transactions),
                "two_phase": decided.two_phase,
            },
            "done": record.is_done,
            "former": record.former,
            "once": record.once,
            "former_queries": record.former_queries,
            "given_up": given_up and {"run": given_up.run_id, "batch": given_up.batch_id},
        },
        separators=(",", ":"),
    ).encode()


def decode(data: bytes) -> SinkRecord:
    try:
        found = json.loads(data)
        if found["version"] not in VERSIONS:
            raise UnreadableDecision(
                f"version {found['version']} is not supported: it must be at most {VERSION}"
            )
        decided = found["decided"]
        return SinkRecord(
            claim=Claim(query_id=found["query"], run_id=found["run"], driver=found["driver"]),
            decided=None if decided is None else _decided(decided),
            is_done=found["done"],
            former=tuple(found["former"]),
            once=found["once"],
            former_queries=tuple(found["former_queries"]),
            given_up=_given_up(found.get("given_up")),  # which early records do not have
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UnreadableDecision(f"not a decision of a sink: {data[:60]!r}") from error


def _decided(found: dict[str, object]) -> Decided:
    match found:
        case {
            "query": str(query_id),
            "batch": int(batch_id),
            "transactions": (list() | dict()) as transactions,
            "two_phase": bool(two_phase),
        }:
            return Decided(
                query_id=query_id,
                batch_id=batch_id,
                transactions=_unpacked(transactions),
                two_phase=two_phase,
            )
        case _:
            raise KeyError("decided")


def _packed(transactions: tuple[Prepared, ...]) -> dict[str, object]:
    prefix = _common_start([one.transactional_id for one in transactions])
    topics: dict[str, int] = {}
    rows = []
    producer_id = 0
    for one in transactions:
        rest = one.transactional_id.removeprefix(prefix)
        row: list[object] = [rest, one.producer_id - producer_id, one.epoch]
        producer_id = one.producer_id
        if one.witness is not None:
            topic = topics.setdefault(one.witness.topic, len(topics))
            row += [topic, one.witness.partition, one.witness.offset]
        rows.append(row)
    return {"prefix": prefix, "topics": list(topics), "rows": rows}


def _common_start(names: list[str]) -> str:
    """Of the least and the greatest of them: all others lie between."""
    if not names:
        return ""
    least, most = min(names), max(names)
    pairs = enumerate(zip(least, most, strict=False))
    return least[: next((at for at, (one, other) in pairs if one != other), len(least))]


def _unpacked(found: list[Any] | dict[str, Any]) -> tuple[Prepared, ...]:
    if isinstance(found, list):
        return tuple(_prepared(*row) for row in found)
    prefix, topics = found["prefix"], found["topics"]
    transactions = []
    producer_id = 0
    for rest, more, epoch, *place in found["rows"]:
        producer_id += more
        if place:
            place[0] = topics[place[0]]
        transactions.append(_prepared(prefix + rest, producer_id, epoch, *place))
    return tuple(transactions)


def _prepared(transactional_id: str, producer_id: int, epoch: int, *place: object) -> Prepared:
    match place:
        case ():
            witness = None
        case (str(topic), int(partition), int(offset)):
            witness = Witness(topic=topic, partition=partition, offset=offset)
        case _:
            raise KeyError("transactions")
    return Prepared(
        transactional_id=str(transactional_id),
        producer_id=int(producer_id),
        epoch=int(epoch),
        witness=witness,
    )


def _given_up(found: dict[str, object] | None) -> GivenUp | None:
    match found:
        case None:
            return None
        case {"run": str(run_id), "batch": (int() | None) as batch_id}:
            return GivenUp(run_id=run_id, batch_id=batch_id)
        case _:
            raise KeyError("given_up")
