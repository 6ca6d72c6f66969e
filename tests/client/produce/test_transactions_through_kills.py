"""Transactions of our own producer while the node is killed and started again beneath it."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.transactions import end_prepared
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import CommitInDoubt
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from rig.client_cluster import run_with_cluster
from rig.committed_reading import committed_values
from rig.serve import ServedNode

TOPIC = "ledger"
PARTITIONS = 2
TRANSACTIONS = 12
KILLED_IN = (3, 8)  # of them
RULES = TransactionRules(batches=BatchRules(linger_ms=0, backoff_ms=20))
SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.state.log.num.partitions": "1",
}
SECONDS_MAX = 120


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    one = ServedNode(data=tmp_path / "node", settings=SETTINGS)
    one.start()
    run_with_cluster(one.bootstrap, make_topic)
    yield one
    assert one.stop() == 0


async def make_topic(cluster: Cluster) -> None:
    new = NewTopic(name=TOPIC, partitions=PARTITIONS, replicas=1)
    first_refusal((await Admin(cluster).create_topics([new])).values())


async def write(producer: TransactionalProducer, number: int) -> None:
    for partition in range(PARTITIONS):
        for half in (b"a", b"b"):
            await producer.send(TOPIC, b"%d%s" % (number, half), partition=partition)


def whole(numbers: list[int]) -> list[bytes]:
    return [b"%d%s" % (number, half) for number in numbers for half in (b"a", b"b")] * PARTITIONS


async def killed(node: ServedNode) -> None:
    """Killed at once, and up again while the caller goes on."""
    node.kill()
    await asyncio.to_thread(node.start)


@pytest.mark.parametrize("generation", list(Generation))
def test_every_transaction_is_there_once_and_whole(
    node: ServedNode, generation: Generation
) -> None:
    rules = replace(RULES, generation_max=generation)

    async def work(cluster: Cluster) -> list[bytes]:
        restarts = []
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            for number in range(TRANSACTIONS):
                await producer.begin()
                await write(producer, number)
                if number in KILLED_IN:
                    await producer.flush()
                    restarts.append(asyncio.ensure_future(killed(node)))
                    await asyncio.sleep(0)
                await producer.commit()
        await asyncio.gather(*restarts)
        return await committed_values(cluster, TOPIC)

    found = run_with_cluster(node.bootstrap, work, seconds_max=SECONDS_MAX)
    assert found == whole(list(range(TRANSACTIONS)))


def test_what_is_written_while_the_node_is_down_is_committed_when_it_is_up(
    node: ServedNode,
) -> None:
    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=RULES) as producer:
            await producer.begin()
            await write(producer, 0)
            await producer.flush()
            node.kill()
            for number in (1, 2):
                await write(producer, number)
            committing = asyncio.ensure_future(producer.commit())
            await asyncio.to_thread(node.start)
            await committing
            async with producer.transaction():
                await write(producer, 3)
        return await committed_values(cluster, TOPIC)

    found = run_with_cluster(node.bootstrap, work, seconds_max=SECONDS_MAX)
    assert found == whole([0, 1, 2, 3])


def test_commit_that_nobody_answers_is_asked_for_again_once_the_node_is_up(
    node: ServedNode,
) -> None:
    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=RULES) as producer:
            await producer.begin()
            await write(producer, 0)
            await producer.flush()
            node.kill()
            # Impatient from here on: what came before may take its time on a busy machine.
            producer.rules = replace(RULES, answer_ms_max=200)
            with pytest.raises(CommitInDoubt):
                await producer.commit()
            await asyncio.to_thread(node.start)
            while producer.state.touched:
                with suppress(CommitInDoubt):
                    await producer.commit()
        return await committed_values(cluster, TOPIC)

    found = run_with_cluster(node.bootstrap, work, seconds_max=SECONDS_MAX)
    assert found == whole([0])


def test_prepared_transaction_survives_a_kill_and_is_committed_by_another_process(
    node: ServedNode,
) -> None:
    async def prepare(cluster: Cluster) -> PreparedTransaction | None:
        rules = replace(RULES, two_phase=True)
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            await write(producer, 0)
            return await producer.prepare()

    async def commit(cluster: Cluster) -> list[bytes]:
        await end_prepared(cluster, prepared, commit=True)
        return await committed_values(cluster, TOPIC)

    prepared = run_with_cluster(node.bootstrap, prepare)
    node.kill()
    node.start()
    assert run_with_cluster(node.bootstrap, commit) == whole([0])
