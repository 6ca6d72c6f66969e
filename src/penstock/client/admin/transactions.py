"""Transactions of other producers: ended by whoever was told to, or taken from them.

Nobody but a producer writes (`transactional_producer`); but any process that knows a prepared
transaction can commit or abort it, and any can take a transactional id over, which fences its
producer.
"""

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import CommitInDoubt, Fenced
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.transaction_answers import NOT_YET, Answer, Verdict
from penstock.client.produce.transaction_requests import (
    Claim,
    claim_id,
    end_transaction,
    generation_of,
)
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.lazy_dataclass import dataclass
from penstock.transactions.state import Identity

WAIT_MS = 60_000
TIMEOUT_MS = 1  # of transactions that nobody is going to begin: no broker finds it too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """A transactional id after it was taken over, and what was found open."""

    transactional_id: str
    identity: Identity  # with which it can be ended from now on
    ongoing: Identity | None  # who wrote what is open; None when nothing is

    def still_open(self, prepared: PreparedTransaction) -> PreparedTransaction | None:
        """The transaction under its new identity, if it is the one that was prepared; None when
        that has been ended, one way or the other.
        """
        assert prepared.transactional_id == self.transactional_id
        if self.ongoing != Identity(ProducerId(prepared.producer_id), _epoch(prepared)):
            return None
        producer_id, epoch = self.identity
        return PreparedTransaction(
            transactional_id=self.transactional_id, producer_id=producer_id, epoch=epoch
        )


async def end_prepared(
    cluster: Cluster, prepared: PreparedTransaction, *, commit: bool, wait_ms: int = WAIT_MS
) -> None:
    """Commits or aborts it. Twice is as good as once, and so is once more after CommitInDoubt, or
    another error that says nobody answered.

    Fenced when the transactional id has been taken over since (see `reclaim`); Fenced, or Refused
    with INVALID_TXN_STATE, when it was ended the other way, by somebody or by its time-out.
    """
    coordinators = await _coordinators(cluster)
    answer = await end_transaction(
        coordinators,
        prepared.transactional_id,
        Identity(ProducerId(prepared.producer_id), _epoch(prepared)),
        generation_of(coordinators),
        commit=commit,
        wait_ms=wait_ms,
    )
    in_doubt = commit and answer.in_doubt
    if in_doubt and answer.verdict in NOT_YET:
        raise CommitInDoubt(
            f"transactional id {prepared.transactional_id}: nobody answered whether the transaction"
            " was committed; ask for the commit again"
        ) from answer.error
    _raise(prepared.transactional_id, answer, in_doubt=in_doubt)


async def fence(cluster: Cluster, transactional_id: str, *, wait_ms: int = WAIT_MS) -> Identity:
    """Takes a transactional id over. Its producer is fenced; what it has open is aborted, prepared
    or not, and that is complete when this returns.
    """
    claim = Claim(timeout_ms=TIMEOUT_MS)
    answer = await claim_id(await _coordinators(cluster), transactional_id, claim, wait_ms=wait_ms)
    _raise(transactional_id, answer)
    assert answer.identity is not None
    return answer.identity


async def reclaim(cluster: Cluster, transactional_id: str, *, wait_ms: int = WAIT_MS) -> Reclaimed:
    """Takes a transactional id over, and keeps what is open: it waits, without a time-out, to be
    committed or aborted (KIP-939).

    UnsupportedByBroker, or Refused, where two-phase commit can't be had.
    """
    claim = Claim(timeout_ms=TIMEOUT_MS, two_phase=True, keep_prepared=True)
    answer = await claim_id(await _coordinators(cluster), transactional_id, claim, wait_ms=wait_ms)
    _raise(transactional_id, answer)
    assert answer.identity is not None
    return Reclaimed(
        transactional_id=transactional_id, identity=answer.identity, ongoing=answer.ongoing
    )


async def abort_open(
    cluster: Cluster, transactional_id: str, *, wait_ms: int = WAIT_MS
) -> Identity | None:
    """Takes a transactional id over and aborts what is open; who wrote that, or None.

    After `fence` nobody can tell how the last transaction ended, as the id is Empty then; after
    this its state says that it was aborted. It needs two-phase commit, as `reclaim` does.
    """
    found = await reclaim(cluster, transactional_id, wait_ms=wait_ms)
    if found.ongoing is not None:
        producer_id, epoch = found.identity
        left = PreparedTransaction(
            transactional_id=transactional_id, producer_id=producer_id, epoch=epoch
        )
        await end_prepared(cluster, left, commit=False, wait_ms=wait_ms)
    return found.ongoing


async def _coordinators(cluster: Cluster) -> Coordinators:
    await cluster.any_channel()  # which tells what the cluster has agreed on
    return Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)


def _raise(transactional_id: str, answer: Answer, *, in_doubt: bool = False) -> None:
    if answer.verdict is Verdict.DONE:
        return
    assert answer.error is not None
    if answer.verdict is Verdict.FENCED:
        raise Fenced(transactional_id, in_doubt=in_doubt) from answer.error
    raise answer.error


def _epoch(prepared: PreparedTransaction) -> ProducerEpoch:
    return ProducerEpoch(prepared.epoch)
