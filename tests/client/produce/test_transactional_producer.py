"""The transactional producer against a broker, in both generations of the protocol."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.client.consume.group_offsets import Committed, Committer, committed_offsets
from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import AbortOnly, Fenced, Refused, WrongStage
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.produce_request import Generation
from penstock.client.produce.transaction import Stage
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset
from penstock.records.build import build_batch
from penstock.records.compression import Codec
from penstock.records.record import Record
from penstock.testing import Broker
from rig.committed_reading import committed_values

Run = Callable[[Callable[[Cluster], Any]], Any]


@pytest.fixture(params=list(Generation), ids=["generation-1", "generation-2"])
def rules(request: pytest.FixtureRequest) -> TransactionRules:
    return TransactionRules(
        generation_max=request.param, batches=BatchRules(linger_ms=0, backoff_ms=5)
    )


async def write_one(
    cluster: Cluster, rules: TransactionRules, transactional_id: str, topic: str, value: bytes
) -> None:
    producer = TransactionalProducer(cluster, transactional_id, rules=rules)
    async with producer, producer.transaction():
        await producer.send(topic, value)


async def stable_offset(groups: Coordinators, place: TopicPartition) -> Committed | Refused:
    return (await committed_offsets(groups, "g", [place], stable=True))[place]


def test_committed_records_are_seen_and_aborted_ones_are_not(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic(partitions=3)

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            for number in range(6):
                await producer.begin()
                for partition in range(3):
                    await producer.send(topic, b"%d" % number, partition=partition)
                await (producer.abort() if number % 2 else producer.commit())
            assert producer.state.generation is rules.generation_max
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"0", b"2", b"4"] * 3


def test_block_of_a_transaction_commits_at_its_end_and_aborts_after_an_error(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            async with producer.transaction():
                await producer.send(topic, b"kept")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(topic, b"%d" % (1 // 0))
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"kept"]


def test_nothing_of_an_open_transaction_is_seen(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> None:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            delivered = await (await producer.send(topic, b"open"))
            assert delivered.offset == 0
            assert await committed_values(cluster, topic, settled=False) == []
            await producer.commit()
            assert await committed_values(cluster, topic) == [b"open"]

    with_cluster(work)


def test_transaction_in_which_nothing_was_written_is_ended_without_asking(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    async def work(cluster: Cluster) -> None:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            identity = producer.identity
            for _ in range(3):
                await producer.begin()
                await producer.commit()
                await producer.begin()
                await producer.abort()
                await producer.begin()
                assert await producer.prepare() is None
            assert producer.identity == identity

    with_cluster(work)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_batches_built_elsewhere_are_part_of_the_transaction(
    penstock: Broker, with_cluster: Run, rules: TransactionRules, codec: Codec
) -> None:
    topic = penstock.topic(partitions=2)
    place = TopicPartition(topic, 1)

    def batch(*values: bytes) -> bytearray:
        return build_batch([Record(None, value, (), 1_000) for value in values], codec=codec)

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            async with producer.transaction():
                deliveries = [
                    await producer.send_batch(place, batch(b"%d" % n, b"%d!" % n)) for n in range(9)
                ]
                await producer.flush()
            assert [(await one).offset for one in deliveries] == list(range(0, 18, 2))
            await producer.begin()
            await producer.send_batch(place, batch(b"aborted"))
            await producer.flush()
            await producer.abort()
        return await committed_values(cluster, topic)

    expected = [text for n in range(9) for text in (b"%d" % n, b"%d!" % n)]
    assert with_cluster(work) == expected


def test_offsets_of_a_group_count_when_the_transaction_is_committed(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)

    async def work(cluster: Cluster) -> list[Any]:
        groups = Coordinators(cluster)
        seen = []
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            for offset, ends in ((3, producer.abort), (5, producer.commit)):
                await producer.begin()
                await producer.send(topic, b"result")
                await producer.send_offsets("g", {place: Committed(offset=Offset(offset))})
                seen.append(await committed_offsets(groups, "g", [place]))
                await ends()
            while isinstance(stable := await stable_offset(groups, place), Refused):
                assert stable.code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        return [*seen, stable]

    first, second, last = with_cluster(work)
    assert first == {}
    assert second == {}
    assert last == Committed(offset=Offset(5))


def test_offsets_of_one_who_is_no_member_spoil_the_transaction(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()
    place = TopicPartition(topic, 0)
    stranger = Committer(member_id="nobody", epoch=7)

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            await producer.send(topic, b"lost")
            with pytest.raises(AbortOnly):
                await producer.send_offsets(
                    "g", {place: Committed(offset=Offset(1))}, member=stranger
                )
            with pytest.raises(AbortOnly):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(topic, b"next")
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"next"]


def test_batch_that_is_refused_leaves_nothing_but_an_abort(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic(partitions=2, max_message_bytes=1_000)

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            await producer.send(topic, b"small", partition=0)
            await producer.send(topic, bytes(5_000), partition=1)
            with pytest.raises(AbortOnly) as refused:
                await producer.commit()
            assert isinstance(refused.value.reason, Refused)
            assert refused.value.reason.code == ErrorCode.MESSAGE_TOO_LARGE
            with pytest.raises(AbortOnly):
                await producer.send(topic, b"more")
            await producer.abort()
            async with producer.transaction():
                await producer.send(topic, b"next", partition=0)
                await producer.send(topic, b"next", partition=1)
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"next", b"next"]


def test_older_producer_of_the_same_id_is_fenced(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as older:
            await older.begin()
            await older.send(topic, b"of the older")
            await older.flush()
            async with TransactionalProducer(cluster, "t", rules=rules) as newer:
                async with newer.transaction():
                    await newer.send(topic, b"of the newer")
                for _ in range(2):
                    with pytest.raises(Fenced) as fenced:
                        await older.commit()
                    assert not fenced.value.in_doubt
                with pytest.raises(Fenced):
                    await older.abort()
                with pytest.raises(Fenced):
                    await older.begin()
                async with newer.transaction():
                    await newer.send(topic, b"again")
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"of the newer", b"again"]


def test_leaving_aborts_what_is_open(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            await producer.send(topic, b"open")
            await producer.flush()
        assert producer.state.stage in (Stage.NEW, Stage.READY)
        return await committed_values(cluster, topic)

    assert with_cluster(work) == []


def test_leaving_asks_again_for_an_abort_that_was_not_answered(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            await producer.begin()
            await (await producer.send(topic, b"open"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await producer.abort()
            assert producer.state.stage is Stage.ABORTING
        assert producer.state.stage in (Stage.NEW, Stage.READY)
        return await committed_values(cluster, topic)

    assert with_cluster(work) == []


def test_transaction_that_outlives_its_time_out_is_aborted_and_the_next_one_goes_on(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()
    brief = replace(rules, timeout_ms=1_000)  # and its one record comes in time

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=brief) as producer:
            await producer.begin()
            await (await producer.send(topic, b"late"))
            await write_one(cluster, rules, "other", topic, b"behind it")
            while await committed_values(cluster, topic, settled=False) == []:
                pass  # each look waits a little
            with pytest.raises((AbortOnly, Fenced)):
                await producer.commit()
        await write_one(cluster, rules, "t", topic, b"in time")
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"behind it", b"in time"]


def test_time_out_above_what_the_broker_allows_is_refused(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    async def work(cluster: Cluster) -> None:
        endless = replace(rules, timeout_ms=2**31 - 1)
        with pytest.raises(Refused, match=r"transaction\.max\.timeout\.ms"):
            await TransactionalProducer(cluster, "t", rules=endless).__aenter__()

    with_cluster(work)


def test_what_comes_at_the_wrong_time_is_refused_and_changes_nothing(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic()

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:
            for too_early in (producer.commit, producer.abort, producer.prepare):
                with pytest.raises(WrongStage):
                    await too_early()
            with pytest.raises(WrongStage):
                await producer.send(topic, b"too early")
            await producer.begin()
            await producer.send(topic, b"in time")
            with pytest.raises(WrongStage):
                await producer.begin()
            await producer.commit()
            with pytest.raises(WrongStage):
                await producer.commit()
        return await committed_values(cluster, topic)

    assert with_cluster(work) == [b"in time"]


def test_many_tasks_write_into_one_transaction(
    penstock: Broker, with_cluster: Run, rules: TransactionRules
) -> None:
    topic = penstock.topic(partitions=4)

    async def work(cluster: Cluster) -> list[bytes]:
        async with TransactionalProducer(cluster, "t", rules=rules) as producer:

            async def write(number: int) -> None:
                for _ in range(25):
                    await producer.send(topic, b"%d" % number, partition=number % 4)

            for _ in range(3):
                async with producer.transaction():
                    await asyncio.gather(*(write(number) for number in range(8)))
        return await committed_values(cluster, topic)

    values = with_cluster(work)
    assert sorted(values) == sorted(b"%d" % n for n in range(8) for _ in range(75))
