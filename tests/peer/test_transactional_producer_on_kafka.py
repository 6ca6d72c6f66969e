"""Our own transactional producer on Apache Kafka: the same promises as here."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.transactions import end_prepared, fence, reclaim
from penstock.client.consume.group_offsets import Committed, Committer, committed_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import AbortOnly, Fenced, Refused, UnsupportedByBroker
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.prepared_transaction import PreparedTransaction
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.build import build_batch
from penstock.records.record import Record
from rig.apache_kafka.broker import ApacheKafka
from rig.client_cluster import run_with_cluster
from rig.committed_reading import committed_values

Run = Callable[[Callable[[Cluster], Any]], Any]
SECONDS_MAX = 120


@pytest.fixture
def on_kafka(apache_kafka: ApacheKafka) -> Run:
    return lambda work: run_with_cluster(apache_kafka.bootstrap, work, seconds_max=SECONDS_MAX)


@pytest.fixture(params=list(Generation), ids=["generation-1", "generation-2"])
def rules(request: pytest.FixtureRequest) -> TransactionRules:
    return TransactionRules(generation_max=request.param, batches=BatchRules(linger_ms=0))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of the topic, and of all that a test makes."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


async def make_topic(cluster: Cluster, name: str, partitions: int = 1) -> None:
    new = NewTopic(name=name, partitions=partitions, replicas=1)
    first_refusal((await Admin(cluster).create_topics([new])).values())


async def stable_offset(
    groups: Coordinators, group: str, place: TopicPartition
) -> Committed | Refused:
    return (await committed_offsets(groups, group, [place], stable=True))[place]


def test_commits_aborts_and_built_batches(
    on_kafka: Run, rules: TransactionRules, name: str
) -> None:
    async def work(cluster: Cluster) -> list[bytes]:
        await make_topic(cluster, name, partitions=2)
        async with TransactionalProducer(cluster, name, rules=rules) as producer:
            for number in range(6):
                await producer.begin()
                await producer.send(name, b"%d" % number, partition=0)
                batch = build_batch([Record(None, b"built %d" % number, (), 1_000)])
                await producer.send_batch(TopicPartition(name, 1), batch)
                await (producer.abort() if number % 2 else producer.commit())
            assert producer.state.generation is rules.generation_max
        return await committed_values(cluster, name)

    expected = [b"0", b"2", b"4", b"built 0", b"built 2", b"built 4"]
    assert on_kafka(work) == expected


def test_offsets_in_the_transaction(on_kafka: Run, rules: TransactionRules, name: str) -> None:
    async def work(cluster: Cluster) -> None:
        await make_topic(cluster, name)
        place = TopicPartition(name, 0)
        groups = Coordinators(cluster)
        async with TransactionalProducer(cluster, name, rules=rules) as producer:
            async with producer.transaction():
                await producer.send(name, b"result")
                await producer.send_offsets(name, {place: Committed(offset=Offset(5))})
            while isinstance(found := await stable_offset(groups, name, place), Refused):
                assert found.code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert found == Committed(offset=Offset(5))
            await producer.begin()
            stranger = Committer(member_id="nobody", epoch=7)
            with pytest.raises(AbortOnly):
                await producer.send_offsets(
                    name, {place: Committed(offset=Offset(9))}, member=stranger
                )
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"next")
        assert await committed_values(cluster, name) == [b"result", b"next"]

    on_kafka(work)


def test_refused_batch_leaves_an_abort_and_then_the_next_transaction(
    on_kafka: Run, rules: TransactionRules, name: str
) -> None:
    async def work(cluster: Cluster) -> list[bytes]:
        await make_topic(cluster, name)
        async with TransactionalProducer(cluster, name, rules=rules) as producer:
            await producer.begin()
            await producer.send(name, b"small")
            await producer.send(name, bytes(3_000_000))
            with pytest.raises(AbortOnly):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"next")
        return await committed_values(cluster, name)

    assert on_kafka(work) == [b"next"]


def test_older_producer_is_fenced(on_kafka: Run, rules: TransactionRules, name: str) -> None:
    async def work(cluster: Cluster) -> list[bytes]:
        await make_topic(cluster, name)
        async with TransactionalProducer(cluster, name, rules=rules) as older:
            await older.begin()
            await (await older.send(name, b"of the older"))
            async with TransactionalProducer(cluster, name, rules=rules) as newer:
                async with newer.transaction():
                    await newer.send(name, b"of the newer")
                with pytest.raises(Fenced):
                    await older.commit()
        return await committed_values(cluster, name)

    assert on_kafka(work) == [b"of the newer"]


def test_prepared_transaction_is_ended_by_another_within_its_time_out(
    on_kafka: Run, rules: TransactionRules, name: str
) -> None:
    async def prepare(cluster: Cluster) -> PreparedTransaction | None:
        await make_topic(cluster, name)
        async with TransactionalProducer(cluster, name, rules=rules) as producer:
            await producer.begin()
            await producer.send(name, b"decided")
            return await producer.prepare()

    async def decide(cluster: Cluster) -> list[bytes]:
        for _ in range(2):
            await end_prepared(cluster, prepared, commit=True)
        await fence(cluster, name)
        with pytest.raises((Fenced, Refused)):
            await end_prepared(cluster, prepared, commit=True)
        return await committed_values(cluster, name)

    prepared = on_kafka(prepare)
    assert on_kafka(decide) == [b"decided"]


def test_transaction_that_outlives_its_time_out_is_not_committed(
    on_kafka: Run, rules: TransactionRules, name: str
) -> None:
    brief = replace(rules, timeout_ms=1_000)  # and its one record comes in time

    async def work(cluster: Cluster) -> list[bytes]:
        await make_topic(cluster, name)
        async with TransactionalProducer(cluster, name, rules=brief) as producer:
            await producer.begin()
            await (await producer.send(name, b"late"))
            other = TransactionalProducer(cluster, name + "-other", rules=rules)
            async with other, other.transaction():
                await other.send(name, b"behind it")
            while await committed_values(cluster, name, settled=False) == []:
                pass  # each look waits a little
            with pytest.raises((AbortOnly, Fenced)):
                await producer.commit()
        return await committed_values(cluster, name)

    assert on_kafka(work) == [b"behind it"]


def test_two_phase_commit_that_can_t_be_had_is_a_clear_error(on_kafka: Run, name: str) -> None:
    async def work(cluster: Cluster) -> None:
        two_phase = TransactionRules(two_phase=True)
        with pytest.raises(UnsupportedByBroker, match="INIT_PRODUCER_ID up to version 5"):
            await TransactionalProducer(cluster, name, rules=two_phase).__aenter__()
        with pytest.raises(UnsupportedByBroker):
            await reclaim(cluster, name)

    on_kafka(work)
