"""The transactions of a cluster: which there are, what each is doing, and how one is ended.

Each broker knows the transactional ids that it coordinates, so a list is asked of all of them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.client.admin.coordinator_map import CoordinatorMap
from penstock.client.admin.transactions import end_prepared, fence
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import MOVED, Coordinators
from penstock.client.network.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByBroker,
    error_code,
)
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction_requests import generation_of
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.transactions.state import (
    BY_WORD,
    DECIDED,
    OPEN,
    TWO_PHASE_TIMEOUT_MS,
    TransactionState,
)
from penstock.wire.messages import describe_transactions as described
from penstock.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

DURATION_FROM, PATTERN_FROM = 1, 2  # versions of ListTransactions
OPEN_STATES = tuple(state.word for state in TransactionState if state in OPEN)
ANY_DURATION = -1
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
LOADING_MS_MAX = 30_000
LISTING_MS_MAX = 30_000
DESCRIBED_AT_ONCE = 1_000  # ids in one request
LOST = (ConnectionLost, TimedOut, Unreachable)
NOBODY = NodeId(-1)
WHO_LEADS = MetadataRequest(
    topics=[MetadataRequestTopic(name=TRANSACTION_TOPIC)], allow_auto_topic_creation=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which transactions to list; what is left empty rules nothing out."""

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    older_than_ms: int | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    state: str  # in the broker's words
    producer_id: int
    coordinator: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    coordinator: NodeId
    start_ms: int | None  # of the wall clock; None: it has not begun
    timeout_ms: int | None  # None: it waits for another coordinator's decision (two-phase commit)
    partitions: tuple[TopicPartition, ...]  # until its coordinator knows that all have markers

    @property
    def is_ongoing(self) -> bool:
        return self.state == TransactionState.ONGOING.word

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES

    @property
    def is_decided(self) -> bool:
        return BY_WORD.get(self.state) in DECIDED


async def list_transactions(cluster: Cluster, wanted: Wanted) -> list[ListedTransaction]:
    """By name, and all of them: coordinators that load, move or are away are waited for.
    ClientError where a state is none, or a broker can't filter like this.

    While coordinators move, each of two brokers may think that the other one has the transactions.
    So all who coordinate must agree about who does, before they are asked and afterwards.
    """
    deadline_ms = cluster.clock.monotonic_ms() + LISTING_MS_MAX
    while True:
        brokers = tuple((await cluster.refresh()).brokers)
        error: ClientError = ClientError("coordinators of transactions move all the time")
        try:
            before = await _coordinators(cluster, brokers)
            if before is not None:
                found = await _listed(cluster, before.nodes, wanted)
                if len(brokers) == 1 or await _coordinators(cluster, brokers) == before:
                    return [found[name] for name in sorted(found)]
        except LOST as lost:
            error = lost
        if cluster.clock.monotonic_ms() >= deadline_ms:
            raise error
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)


async def _coordinators(cluster: Cluster, brokers: tuple[NodeId, ...]) -> "_Coordinating | None":
    """None while they do not agree, or some partition has no leader."""
    if len(brokers) == 1:
        return _Coordinating(nodes=brokers)
    told = _coordinating(await cluster.ask_any(WHO_LEADS, MetadataResponse))
    if told is None:  # never made, or not to be seen
        return _Coordinating(nodes=brokers)
    if NOBODY in told.nodes:
        return None
    for node in told.nodes:
        if _coordinating(await cluster.ask(node, WHO_LEADS, MetadataResponse)) != told:
            return None
    return told


class _Coordinating(NamedTuple):
    """Who coordinates which transactions. Nobody else has to be asked."""

    nodes: tuple[NodeId, ...]
    led: tuple[tuple[int, int, int], ...] = ()  # partition, leader and leader epoch


def _coordinating(reply: MetadataResponse) -> _Coordinating | None:
    [topic] = reply.topics
    if topic.error_code != ErrorCode.NONE:
        return None
    led = sorted((one.partition_index, one.leader_id, one.leader_epoch) for one in topic.partitions)
    return _Coordinating(
        nodes=tuple(sorted({NodeId(leader) for _, leader, _ in led})), led=tuple(led)
    )


async def _listed(
    cluster: Cluster, nodes: Iterable[NodeId], wanted: Wanted
) -> dict[str, ListedTransaction]:
    request = ListTransactionsRequest(
        state_filters=list(wanted.states),
        producer_id_filters=list(wanted.producer_ids),
        duration_filter=ANY_DURATION if wanted.older_than_ms is None else wanted.older_than_ms,
        transactional_id_pattern=wanted.pattern,
    )
    found: dict[str, ListedTransaction] = {}
    for node in nodes:
        version = (await cluster.channel(node)).version_for(ListTransactionsRequest)
        _require(version, wanted)
        deadline_ms = cluster.clock.monotonic_ms() + LOADING_MS_MAX
        while True:
            reply = await cluster.ask(node, request, ListTransactionsResponse, version)
            code = error_code(reply.error_code)
            if code not in LOADING or cluster.clock.monotonic_ms() >= deadline_ms:
                break
            await asyncio.sleep(cluster.rules.backoff_ms / 1000)
        if code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise Refused(code, wanted.pattern or "", "this is no regular expression of RE2")
        if code != ErrorCode.NONE:
            raise Refused(code, f"broker {node}")
        if reply.unknown_state_filters:
            raise ClientError(
                f"no state of a transaction is called {reply.unknown_state_filters[0]!r};"
                f" there are {', '.join(BY_WORD)}"
            )
        for told in reply.transaction_states:
            found[told.transactional_id] = ListedTransaction(
                transactional_id=told.transactional_id,
                state=told.transaction_state,
                producer_id=told.producer_id,
                coordinator=node,
            )
    return found


async def describe_transactions(
    coordinators: Coordinators, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | Refused]:
    return {name: await _describe(coordinators, name) for name in transactional_ids}


async def describe_together(
    coordinators: CoordinatorMap, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """The same with one request for many ids of a coordinator. An id is left out if nobody has
    described it at once: `describe_transactions` waits, and says why.
    """
    found: dict[str, TransactionDescription] = {}
    try:
        places = await coordinators.find(transactional_ids)
    except LOST:
        return found
    by_node: dict[NodeId, list[str]] = {}
    for name, place in places.items():
        if not isinstance(place, ErrorCode):
            by_node.setdefault(place, []).append(name)
    for node, names in by_node.items():
        for start in range(0, len(names), DESCRIBED_AT_ONCE):
            some = names[start : start + DESCRIBED_AT_ONCE]
            request = DescribeTransactionsRequest(transactional_ids=some)
            try:
                reply = await coordinators.cluster.ask(node, request, DescribeTransactionsResponse)
            except LOST:
                for name in names:
                    coordinators.forget(name)
                break
            for told in reply.transaction_states:
                code = error_code(told.error_code)
                if code == ErrorCode.NONE:
                    found[told.transactional_id] = _description(told, node)
                elif code in MOVED:
                    coordinators.forget(told.transactional_id)
    return found


async def abort_transaction(coordinators: Coordinators, transactional_id: str) -> None:
    """Aborts what is open, whoever began it, and fences its producer. Returns when all partitions
    have been told. Refused where nothing is open, or the outcome is decided already.

    That is looked at first, by another request: a producer which is at work meanwhile may be fenced
    between two of its transactions, or in the next one, which is aborted then.
    """
    before = await _describe(coordinators, transactional_id)
    if isinstance(before, Refused):
        raise before
    if before.is_decided:
        done = "committed" if before.state == TransactionState.PREPARE_COMMIT.word else "aborted"
        raise Refused(
            ErrorCode.INVALID_TXN_STATE,
            transactional_id,
            f"it is being {done} ({before.state}): that can't be changed",
        )
    if not before.is_ongoing:
        raise Refused(
            ErrorCode.INVALID_TXN_STATE,
            transactional_id,
            f"no transaction is open: its state is {before.state}",
        )
    producer_id, epoch = await fence(coordinators.cluster, transactional_id)
    if generation_of(coordinators) is Generation.TWO:
        # Whoever looks afterwards is to find that it was aborted, and not only an id in no use.
        taken = PreparedTransaction(
            transactional_id=transactional_id, producer_id=producer_id, epoch=epoch
        )
        await end_prepared(coordinators.cluster, taken, commit=False)


def _require(version: int, wanted: Wanted) -> None:
    """An older broker would overlook the filter, and list what was not asked for."""
    if wanted.pattern is not None and version < PATTERN_FROM:
        raise UnsupportedByBroker("the broker can't list transactions by a pattern")
    if wanted.older_than_ms is not None and version < DURATION_FROM:
        raise UnsupportedByBroker("the broker can't list transactions by their age")


async def _describe(
    coordinators: Coordinators, transactional_id: str
) -> TransactionDescription | Refused:
    reply = await coordinators.ask(
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        code_of=lambda reply: reply.transaction_states[0].error_code,
    )
    [told] = reply.transaction_states
    code = error_code(told.error_code)
    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return Refused(code, transactional_id, "there is no such transactional id")
    if code != ErrorCode.NONE:
        return Refused(code, transactional_id)
    return _description(told, await coordinators.of(transactional_id))


def _description(told: described.TransactionState, coordinator: NodeId) -> TransactionDescription:
    start_ms, timeout_ms = told.transaction_start_time_ms, told.transaction_timeout_ms
    return TransactionDescription(
        transactional_id=told.transactional_id,
        state=told.transaction_state,
        producer_id=told.producer_id,
        epoch=told.producer_epoch,
        coordinator=coordinator,
        start_ms=None if start_ms < 0 else start_ms,
        timeout_ms=None if timeout_ms == TWO_PHASE_TIMEOUT_MS else timeout_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, index)
                for topic in told.topics
                for index in topic.partitions
            )
        ),
    )
