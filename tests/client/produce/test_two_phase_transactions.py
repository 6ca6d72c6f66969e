"""Transactions prepared by one process and ended by another, whatever comes in between."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.transaction_listing import OPEN_STATES, describe_transactions
from penstock.client.admin.transactions import abort_open, end_prepared, fence, reclaim
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import Fenced, Refused, WrongStage
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.testing import Broker, running_broker
from rig.client_cluster import run_with_cluster
from rig.committed_reading import committed_values

Run = Callable[[Callable[[Cluster], Any]], Any]
RULES = TransactionRules(two_phase=True, batches=BatchRules(linger_ms=0, backoff_ms=5))


async def prepare(
    cluster: Cluster, topic: str, value: bytes, rules: TransactionRules = RULES
) -> PreparedTransaction:
    """As a task does that ends before anything is decided."""
    async with TransactionalProducer(cluster, "t", rules=rules) as producer:
        await producer.begin()
        await producer.send(topic, value)
        prepared = await producer.prepare()
    assert prepared is not None
    assert pickle.loads(pickle.dumps(prepared)) == prepared
    return prepared


async def is_open(cluster: Cluster, transactional_id: str) -> bool:
    return await state_of(cluster, transactional_id) in OPEN_STATES


async def state_of(cluster: Cluster, transactional_id: str) -> str:
    coordinators = Coordinators(cluster, kind=CoordinatorKind.TRANSACTION)
    described = await describe_transactions(coordinators, [transactional_id])
    found = described[transactional_id]
    assert not isinstance(found, Refused), found
    return found.state


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("generation", list(Generation))
def test_prepared_transaction_is_ended_by_whoever_was_told_of_it(
    penstock: Broker, with_cluster: Run, generation: Generation, commit: bool
) -> None:
    topic = penstock.topic()
    rules = replace(RULES, generation_max=generation)
    prepared = with_cluster(lambda cluster: prepare(cluster, topic, b"decided", rules))

    async def decide(cluster: Cluster) -> list[bytes]:
        assert await committed_values(cluster, topic, settled=False) == []
        for _ in range(3):
            await end_prepared(cluster, prepared, commit=commit)
        with pytest.raises((Fenced, Refused)):
            await end_prepared(cluster, prepared, commit=not commit)
        await prepare(cluster, topic, b"open")
        return await committed_values(cluster, topic, settled=False)

    assert with_cluster(decide) == ([b"decided"] if commit else [])


def test_prepared_transaction_outlives_every_time_out(penstock: Broker, with_cluster: Run) -> None:
    topic = penstock.topic()
    brief = replace(RULES, timeout_ms=1_000)

    async def work(cluster: Cluster) -> list[bytes]:
        prepared = await prepare(cluster, topic, b"patient", brief)
        # An ordinary transaction of the same time-out, begun later, is aborted by itself.
        ordinary = TransactionRules(timeout_ms=1_000)
        async with TransactionalProducer(cluster, "ordinary", rules=ordinary) as producer:
            await producer.begin()
            await (await producer.send(topic, b"too late"))
            while await is_open(cluster, "ordinary"):
                pass  # each look is a question to the coordinator
        assert await is_open(cluster, "t")
        await end_prepared(cluster, prepared, commit=True)
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"patient"]


def test_next_producer_finds_what_was_prepared_and_ends_it(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        prepared = await prepare(cluster, topic, b"first")
        keeping = replace(RULES, keep_prepared=True)
        async with TransactionalProducer(cluster, "t", rules=keeping) as producer:
            assert producer.kept == (prepared.producer_id, prepared.epoch)
            with pytest.raises(WrongStage):
                await producer.send(topic, b"into another's transaction")
            with pytest.raises(WrongStage):
                await producer.begin()
            await producer.commit()
            assert producer.kept is None
            async with producer.transaction():
                await producer.send(topic, b"second")
        async with TransactionalProducer(cluster, "t", rules=keeping) as producer:
            assert producer.kept is None
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"first", b"second"]


def test_whoever_leaves_a_kept_transaction_alone_leaves_it_open(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        prepared = await prepare(cluster, topic, b"first")
        keeping = replace(RULES, keep_prepared=True)
        for _ in range(2):  # as attempts of a task do that find they were not the first
            async with TransactionalProducer(cluster, "t", rules=keeping) as producer:
                assert producer.kept is not None
        with pytest.raises(Fenced):
            await end_prepared(cluster, prepared, commit=True)
        found = await reclaim(cluster, "t")
        again = found.still_open(prepared)
        assert again is not None
        await end_prepared(cluster, again, commit=True)
        assert (await reclaim(cluster, "t")).still_open(prepared) is None
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"first"]


def test_fence_aborts_what_was_prepared_and_is_complete_when_it_returns(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        prepared = await prepare(cluster, topic, b"first")
        await fence(cluster, "t")
        with pytest.raises((Fenced, Refused)):
            await end_prepared(cluster, prepared, commit=True)
        producer = TransactionalProducer(cluster, "other", rules=RULES)
        async with producer, producer.transaction():
            await producer.send(topic, b"not held back")
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"not held back"]


def test_abort_of_what_somebody_left_open_can_be_told_from_a_commit_afterwards(
    penstock: Broker, with_cluster: Run
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> None:
        prepared = await prepare(cluster, topic, b"first")
        writer = await abort_open(cluster, "t")
        assert writer == (prepared.producer_id, prepared.epoch)
        assert await state_of(cluster, "t") == "CompleteAbort"
        assert await abort_open(cluster, "t") is None

    with_cluster(work)


def test_fence_asks_for_no_time_out_that_a_broker_could_find_too_long() -> None:
    with running_broker(settings={"transaction.max.timeout.ms": "1000"}) as broker:
        taken = run_with_cluster(broker.bootstrap, lambda cluster: fence(cluster, "t"))
    assert taken.epoch == 0


def test_fence_of_an_id_that_nobody_ever_used_is_harmless(
    penstock: Broker, with_cluster: Run
) -> None:
    async def work(cluster: Cluster) -> None:
        first = await fence(cluster, "unused")
        second = await fence(cluster, "unused")
        assert second.producer_id == first.producer_id
        assert second.epoch > first.epoch

    with_cluster(work)


def test_where_two_phase_commit_is_off_the_error_names_the_setting() -> None:
    off = {"transaction.two.phase.commit.enable": "false"}
    with running_broker(settings=off) as broker:

        async def work(cluster: Cluster) -> None:
            with pytest.raises(Refused, match=r"transaction\.two\.phase\.commit\.enable"):
                await TransactionalProducer(cluster, "t", rules=RULES).__aenter__()
            with pytest.raises(Refused, match=r"transaction\.two\.phase\.commit\.enable"):
                await reclaim(cluster, "t")

        run_with_cluster(broker.bootstrap, work)
