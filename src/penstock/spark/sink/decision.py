"""What the decision topic says of a sink: one record, the latest of its name.

    CLAIMED     a run writes; whatever an earlier run has not decided it never will
    DECIDED     a batch is these transactions, whether they have ended already or not
    DONE        all of them have been committed

A claim keeps the decision before it: whoever claims has to see it through. It also keeps the runs
that held the sink before, the latest of them, so that none of those claims it back; and a decision
the queries that decided before, as their last batches are no longer known.
"""

import json
from dataclasses import dataclass, replace

from penstock.model.error import PenstockError

VERSION = 1
FORMER_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who writes: one run of one query, in one place where Spark's driver runs."""

    query_id: str
    run_id: str
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A transaction that is written whole and left open, by the identity that wrote it."""

    transactional_id: str
    producer_id: int
    epoch: int


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

    def claimed_by(self, claim: Claim) -> "SinkRecord":
        former = (*self.former, self.claim.run_id)[-FORMER_MAX:]
        return replace(self, claim=claim, former=former)

    def with_decision(self, decided: Decided) -> "SinkRecord":
        queries = self.former_queries
        if self.decided is not None and self.decided.query_id != decided.query_id:
            queries = (*queries, self.decided.query_id)[-FORMER_MAX:]
        return replace(self, decided=decided, is_done=False, former_queries=queries)

    @property
    def unfinished(self) -> Decided | None:
        return None if self.is_done else self.decided


class UnreadableDecision(PenstockError):
    """A record in the decision topic that no sink wrote, or one of a later version."""


def encode(record: SinkRecord) -> bytes:
    decided = record.decided
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
                "transactions": [
                    [one.transactional_id, one.producer_id, one.epoch]
                    for one in decided.transactions
                ],
                "two_phase": decided.two_phase,
            },
            "done": record.is_done,
            "former": record.former,
            "once": record.once,
            "former_queries": record.former_queries,
        }
    ).encode()


def decode(data: bytes) -> SinkRecord:
    try:
        found = json.loads(data)
        if found["version"] != VERSION:
            raise UnreadableDecision(f"version {found['version']}: {VERSION} is what is known here")
        decided = found["decided"]
        return SinkRecord(
            claim=Claim(query_id=found["query"], run_id=found["run"], driver=found["driver"]),
            decided=None if decided is None else _decided(decided),
            is_done=found["done"],
            former=tuple(found["former"]),
            once=found["once"],
            former_queries=tuple(found["former_queries"]),
        )
    except (KeyError, TypeError, ValueError) as trouble:
        raise UnreadableDecision(f"not a decision of a sink: {data[:60]!r}") from trouble


def _decided(found: dict[str, object]) -> Decided:
    match found:
        case {
            "query": str(query_id),
            "batch": int(batch_id),
            "transactions": list(rows),
            "two_phase": bool(two_phase),
        }:
            transactions = (
                Prepared(transactional_id=str(row[0]), producer_id=int(row[1]), epoch=int(row[2]))
                for row in rows
            )
            return Decided(
                query_id=query_id,
                batch_id=batch_id,
                transactions=tuple(transactions),
                two_phase=two_phase,
            )
        case _:
            raise KeyError("decided")
