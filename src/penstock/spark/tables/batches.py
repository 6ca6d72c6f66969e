"""Whether a batch is to be written: the rule for every kind of table. Pure.

A table remembers, in the same commit as the rows, for each application (`app`): which queries have
written, in which order, and the last batch of each. A query is known by Spark's query id, which
lies in its checkpoint: a restarted query has the same one, a new checkpoint has another.

    the last batch of the query comes again    it is in the table: skip
    a later one                                write
    an earlier one                             OlderBatch: whoever sends it does not know the table
    the first of a query not seen before       write; from now on the app is this query's
    a query that another has taken over from   Superseded

Batches may be missing in between, since not every batch has rows for every table.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from penstock.spark.batch_identity import BatchPlace, place_of
from penstock.spark.tables.errors import OlderBatch, Superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    app: str
    query: str  # Spark's query id; "" where no streaming query has made the batch
    batch_id: int

    def __post_init__(self) -> None:
        assert self.app
        assert self.batch_id >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the table remembers of the batch's app and query."""

    last_batch_id: int | None  # of this query; None: it has not written yet
    taken_over: bool  # another query began after this one


class Verdict(Enum):
    WRITE = auto()
    SKIP = auto()


def judge(batch: Batch, written: Written, *, table: str) -> Verdict:
    place = place_of(
        batch.batch_id, last_batch_id=written.last_batch_id, taken_over=written.taken_over
    )
    match place:
        case BatchPlace.FIRST | BatchPlace.NEXT | BatchPlace.LATER:
            return Verdict.WRITE
        case BatchPlace.REPEATED:
            return Verdict.SKIP
        case BatchPlace.OLDER:
            raise OlderBatch(
                f"{table}: batch {batch.batch_id} of {batch.app!r} is older than batch "
                f"{written.last_batch_id}, which is written: another driver has replaced this one, "
                "or the checkpoint is older than the table."
            )
        case BatchPlace.SUPERSEDED:
            raise Superseded(
                f"{table}: another query now writes as {batch.app!r}; batch {batch.batch_id} of "
                f"query {batch.query!r} is refused. Stop this query, or give it another app."
            )
        case _:
            assert_never(place)
