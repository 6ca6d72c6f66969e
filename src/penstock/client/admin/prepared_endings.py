"""Many prepared transactions, committed or aborted at the same time.

`end_all` sends each coordinator the ends of all its transactions without waiting for an answer in
between, and asks again about those that have no verdict yet. What an answer means is said by
`transaction_answers`, as for a single one (`transactions.end_prepared`).
"""

import asyncio
from collections.abc import Iterable, Sequence

from penstock.client.admin.coordinator_map import CoordinatorMap
from penstock.client.admin.transactions import WAIT_MS
from penstock.client.network.channel import Channel
from penstock.client.network.coordinators import LOST, CoordinatorKind, Coordinators
from penstock.client.network.errors import (
    ClientError,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByBroker,
    error_code,
)
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.transaction_answers import NOT_YET, Answer, Asked, Asking, Verdict
from penstock.client.produce.transaction_requests import END_VERSIONS, generation_of
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import REQUESTS_IN_FLIGHT_MAX
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

AT_ONCE = REQUESTS_IN_FLIGHT_MAX // 2  # unanswered for each coordinator; others ask there too


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """How one attempt ended: with a code, or without an answer."""

    code: ErrorCode | None
    error: ClientError
    sent: bool = True


async def end_all(
    coordinators: CoordinatorMap,
    transactions: Iterable[PreparedTransaction],
    *,
    commit: bool,
    wait_ms: int = WAIT_MS,
) -> dict[PreparedTransaction, Answer]:
    """The verdict on each. Twice is as good as once, as with `end_prepared`."""
    cluster = coordinators.cluster
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms
    asked = Asked.COMMIT if commit else Asked.ABORT
    waiting = {one: Asking(asked=asked) for one in transactions}
    answers: dict[PreparedTransaction, Answer] = {}
    while waiting:
        heard = await _ask(coordinators, tuple(waiting), commit=commit)
        is_late = cluster.clock.monotonic_ms() >= deadline_ms
        for one, told in heard.items():
            verdict = waiting[one].heard(told.code, sent=told.sent)
            if verdict is Verdict.ELSEWHERE:
                coordinators.forget(one.transactional_id)
            if verdict in NOT_YET and not is_late:
                continue
            answers[one] = Answer(
                verdict=verdict,
                error=None if verdict is Verdict.DONE else told.error,
                code=told.code,
                in_doubt=waiting.pop(one).in_doubt,
            )
        if waiting:
            await asyncio.sleep(cluster.rules.backoff_ms / 1000)
    return answers


async def _ask(
    coordinators: CoordinatorMap, transactions: Sequence[PreparedTransaction], *, commit: bool
) -> dict[PreparedTransaction, Heard]:
    """Asks about each of them once."""
    heard: dict[PreparedTransaction, Heard] = {}
    try:
        found = await coordinators.find(one.transactional_id for one in transactions)
    except LOST as lost:
        return {one: Heard(code=None, error=lost, sent=False) for one in transactions}
    queues: dict[NodeId, list[PreparedTransaction]] = {}
    for one in transactions:
        node = found[one.transactional_id]
        if isinstance(node, ErrorCode):
            heard[one] = Heard(code=node, error=_refused(one, node), sent=False)
        else:
            queues.setdefault(node, []).append(one)
    while queues:
        posted: dict[PreparedTransaction, tuple[Channel, asyncio.Future[EndTxnResponse]]] = {}
        for node, queue in queues.items():
            try:
                channel, version = await _channel(coordinators, node)
            except LOST as lost:
                sent = not isinstance(lost, Unreachable)
                heard |= {one: Heard(code=None, error=lost, sent=sent) for one in queue}
                queue.clear()
                continue
            for one in queue[:AT_ONCE]:
                request = _request(one, commit=commit)
                posted[one] = channel, channel.post(request, EndTxnResponse, version=version)
            del queue[:AT_ONCE]
        heard |= await _answers(posted, answer_ms_max=coordinators.cluster.rules.request_ms_max)
        queues = {node: queue for node, queue in queues.items() if queue}
    return heard


async def _channel(coordinators: CoordinatorMap, node: NodeId) -> tuple[Channel, int]:
    cluster = coordinators.cluster
    channel = await cluster.channel(node)
    # By now it is known what the cluster has agreed on.
    generation = generation_of(Coordinators(cluster, kind=CoordinatorKind.TRANSACTION))
    least, most = END_VERSIONS[generation]
    version = channel.version_for(EndTxnRequest, at_most=most)
    if version < least:
        raise UnsupportedByBroker(
            f"the broker speaks END_TXN up to version {version}; needed is {least}"
        )
    return channel, version


async def _answers(
    posted: dict[PreparedTransaction, tuple[Channel, asyncio.Future[EndTxnResponse]]],
    *,
    answer_ms_max: int,
) -> dict[PreparedTransaction, Heard]:
    """Replies come in order: a channel with one that is late is closed, as by `Channel.ask`."""
    if not posted:
        return {}
    _, late = await asyncio.wait(
        [future for _, future in posted.values()], timeout=answer_ms_max / 1000
    )
    for channel, future in posted.values():
        if future in late:
            channel.close(TimedOut(f"{channel.address}: no answer within {answer_ms_max} ms"))
    heard: dict[PreparedTransaction, Heard] = {}
    for one, (_, future) in posted.items():
        try:
            code = error_code((await future).error_code)
        except LOST as lost:
            heard[one] = Heard(code=None, error=lost)
        else:
            heard[one] = Heard(code=code, error=_refused(one, code))
    return heard


def _request(one: PreparedTransaction, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        committed=commit,
    )


def _refused(one: PreparedTransaction, code: ErrorCode) -> Refused:
    return Refused(code, f"transactional id {one.transactional_id}")
