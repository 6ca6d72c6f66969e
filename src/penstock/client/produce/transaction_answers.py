"""What a coordinator's answer to a transactional producer means: a table, and no more.

Answers that only say "not now" or "not here" are asked about again; the others are verdicts, and
`transaction` tells what follows from them. A code that is not in the table is no good sign: it
spoils the transaction that is open, or, where the id itself was the matter, the producer.
"""

from collections.abc import Mapping
from enum import Enum

from penstock.client.network.errors import RETRIABLE, ClientError
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.state import Identity


class Asked(Enum):
    IDENTITY = "identity"  # InitProducerId
    PARTITIONS = "partitions"  # AddPartitionsToTxn, AddOffsetsToTxn
    OFFSETS = "offsets"  # TxnOffsetCommit
    COMMIT = "commit"  # EndTxn
    ABORT = "abort"


class Verdict(Enum):
    DONE = "done"
    AGAIN = "again"  # the same, a little later
    ELSEWHERE = "elsewhere"  # the same, of the coordinator that it is now
    ABORT_ONLY = "abort only"  # this transaction can't be committed any more
    FENCED = "fenced"  # the transactional id is somebody else's
    FAILED = "failed"  # this producer can't go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How asking ended. With AGAIN and ELSEWHERE, time was up."""

    verdict: Verdict
    error: ClientError | None = None  # why it is not DONE
    code: ErrorCode | None = None
    in_doubt: bool = False  # it may have been done, although nobody said so
    identity: Identity | None = None  # what the producer has been given
    ongoing: Identity | None = None  # whose transaction was kept open (KIP-939)

    def __post_init__(self) -> None:
        assert (self.error is None) == (self.verdict is Verdict.DONE), self


NOT_YET = frozenset({Verdict.AGAIN, Verdict.ELSEWHERE})

V = Verdict
_ALWAYS: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: V.DONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: V.AGAIN,
    ErrorCode.CONCURRENT_TRANSACTIONS: V.AGAIN,
    ErrorCode.NOT_COORDINATOR: V.ELSEWHERE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: V.ELSEWHERE,
    ErrorCode.PRODUCER_FENCED: V.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: V.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: V.FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: V.FAILED,
}
_OTHERWISE: Mapping[Asked, Verdict] = {
    Asked.IDENTITY: V.FAILED,
    Asked.PARTITIONS: V.ABORT_ONLY,
    Asked.OFFSETS: V.ABORT_ONLY,
    Asked.COMMIT: V.FAILED,
    Asked.ABORT: V.FAILED,
}
assert set(_OTHERWISE) == set(Asked)
# The coordinator has aborted it, or never heard of it: for sure it was not committed.
_NOT_COMMITTED = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})
# The coordinator has looked, and has done nothing. Of any other answer that is not a verdict the
# decision may have been stored, and only its announcement lost.
_NOTHING_DONE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}
)


def verdict(asked: Asked, code: ErrorCode) -> Verdict:
    found = _ALWAYS.get(code)
    if found is not None:
        return found
    if asked is Asked.COMMIT and code in _NOT_COMMITTED:
        return V.ABORT_ONLY
    return V.AGAIN if code in RETRIABLE else _OTHERWISE[asked]


@dataclass(slots=True, kw_only=True)
class Asking:
    """One question, asked until there is a verdict."""

    asked: Asked
    in_doubt: bool = False

    def heard(self, code: ErrorCode | None, *, sent: bool = True) -> Verdict:
        """An attempt ended with this code, or without any; perhaps it was never `sent`."""
        found = Verdict.ELSEWHERE if code is None else verdict(self.asked, code)
        if sent and found in NOT_YET and code not in _NOTHING_DONE:
            self.in_doubt = True
        return found
