"""Each action of the sink's flows, carried out at a node."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.client.consume.offsets import When, offsets_of
from penstock.client.network.errors import TimedOut
from penstock.client.produce.partitioner import partition_of_key
from penstock.client.produce.producer import Producer
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.model.identity import TopicPartition
from penstock.spark.sink.actions import (
    Abort,
    Commit,
    Fence,
    ListOpen,
    Look,
    ReadLast,
    Reclaim,
    Reclaimed,
    Seen,
    Write,
    WriteOutcome,
)
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord, Witness
from penstock.spark.sink.decision_topic import READ_MS_MAX, DecisionTopic
from penstock.spark.sink.errors import WrongDecisionTopic
from penstock.spark.sink.names import prefix_of
from rig.clients.confluent import ConfluentClient
from rig.command import run_command
from rig.hanging import leave_hanging, talk_with
from rig.serve import ServedNode
from rig.sink_output import cluster_at, committed_records
from rig.sink_shell import SinkShell, with_sink

Topics = Callable[..., str]
RECORD = SinkRecord(claim=Claim(query_id="query", run_id="run"))


def test_decision_topic_is_compacted(
    node: ServedNode, topic: Topics, confluent: ConfluentClient
) -> None:
    async def work(shell: SinkShell) -> str:
        await shell.decisions.make()  # once more does no harm
        return shell.decisions.name

    name = with_sink(node.bootstrap, topic(), work)
    settings = confluent.topic_settings(name)
    assert settings["cleanup.policy"] == "compact"
    assert int(settings["max.message.bytes"]) > 4_000_000


def test_topic_that_forgets_is_refused_for_decisions(node: ServedNode, topic: Topics) -> None:
    name = topic(**{"cleanup.policy": "compact,delete"})

    async def work() -> None:
        async with cluster_at(node.bootstrap) as cluster:
            await DecisionTopic(cluster=cluster, name=name).make()

    with pytest.raises(WrongDecisionTopic, match=f"{name} .*cleanup.policy is compact,delete"):
        asyncio.run(work())


def test_what_was_written_last_is_read(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> list[object]:
        async with shell.carrier() as one, shell.carrier() as other:
            answers = [await one.carry_out(ReadLast())]
            for record in (RECORD, SinkRecord(claim=RECORD.claim, former=("before",))):
                await one.carry_out(Fence())
                answers.append(await one.carry_out(Write(record)))
                answers.append(await one.carry_out(ReadLast()))
            answers.append(await other.carry_out(ReadLast()))
            await other.carry_out(Fence())
            await other.carry_out(Write(None))
            answers.append(await one.carry_out(ReadLast()))
            return answers

    after = SinkRecord(claim=RECORD.claim, former=("before",))
    written = WriteOutcome.WRITTEN
    found = with_sink(node.bootstrap, topic(), work)
    assert found == [None, written, RECORD, written, after, after, None]


def test_decision_of_20_000_tasks_is_written_and_read(node: ServedNode, topic: Topics) -> None:
    """Into a topic whose messages are as large as is usual."""
    name = topic(**{"cleanup.policy": "compact"})
    run_id = str(uuid.uuid4())
    transactions = tuple(
        Prepared(
            transactional_id=f"sink.{run_id}.{number}.{number}.0.1",
            producer_id=number,
            epoch=0,
            witness=Witness(topic="orders", partition=number % 100, offset=number * 7919),
        )
        for number in range(20_000)
    )
    decided = Decided(query_id="query", batch_id=0, transactions=transactions, two_phase=False)
    record = SinkRecord(claim=RECORD.claim, decided=decided, is_done=False)

    async def work(shell: SinkShell) -> None:
        decisions = DecisionTopic(cluster=shell.cluster, name=name)
        async with Carrier(shell.cluster, shell.sink, decisions, two_phase=True) as carrier:
            await carrier.carry_out(Fence())
            assert await carrier.carry_out(Write(record)) is WriteOutcome.WRITTEN
            assert await carrier.carry_out(ReadLast()) == record

    with_sink(node.bootstrap, topic(), work)


def test_fence_keeps_the_decider_before_it_from_writing(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> tuple[object, object]:
        async with shell.carrier() as one, shell.carrier() as other:
            await one.carry_out(Fence())
            await other.carry_out(Fence())
            return await one.carry_out(Write(RECORD)), await one.carry_out(ReadLast())

    assert with_sink(node.bootstrap, topic(), work) == (WriteOutcome.FENCED, None)


def test_reading_waits_for_what_is_open_before_the_end(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        place = await shell.decisions.place_of(shell.sink)
        async with (
            TransactionalProducer(shell.cluster, f"{shell.sink}-other") as other,
            shell.carrier() as carrier,
        ):
            await other.begin()
            await other.send(place.topic, b"?", key=b"another sink", partition=place.partition)
            await other.flush()
            reading = asyncio.create_task(carrier.carry_out(ReadLast()))
            done, _ = await asyncio.wait([reading], timeout=0.3)
            assert not done
            await other.abort()
            assert await reading is None

    with_sink(node.bootstrap, topic(), work)


def test_decision_that_cannot_be_read_is_not_answered_where_transactions_time_out(
    node: ServedNode, topic: Topics
) -> None:
    """As on Apache Kafka, which can lose the marker of a commit that it has acked."""

    async def work(shell: SinkShell) -> None:
        place = await shell.decisions.place_of(shell.sink)
        decisions = replace(shell.decisions, read_ms_max=500)
        async with (
            TransactionalProducer(shell.cluster, f"{shell.sink}-other") as other,
            Carrier(shell.cluster, shell.sink, decisions, two_phase=False) as carrier,
        ):
            await carrier.carry_out(Fence())
            await other.begin()
            await other.send(place.topic, b"?", key=b"another sink", partition=place.partition)
            await other.flush()
            with pytest.raises(TimedOut, match=f"producer {other.identity.producer_id} has a"):
                await carrier.carry_out(Write(RECORD))

    with_sink(node.bootstrap, topic(), work, two_phase=False)


def test_decision_that_another_has_replaced_is_in_doubt_where_transactions_time_out(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> object:
        place = await shell.decisions.place_of(shell.sink)
        async with (
            TransactionalProducer(shell.cluster, f"{shell.sink}-other") as other,
            shell.carrier() as one,
            Carrier(shell.cluster, shell.sink, shell.decisions, two_phase=True) as newer,
        ):
            await one.carry_out(Fence())
            await other.begin()
            await other.send(place.topic, b"?", key=b"another sink", partition=place.partition)
            await other.flush()
            [start] = (await offsets_of(shell.cluster, [place], When.LATEST)).values()
            writing = asyncio.create_task(one.carry_out(Write(RECORD)))
            end = start
            while end < start + 2:  # the decision and its marker
                [end] = (await offsets_of(shell.cluster, [place], When.LATEST)).values()
            await newer.carry_out(Fence())
            await newer.carry_out(Write(replace(RECORD, former=("before",))))
            await other.abort()
            return await writing

    outcome = with_sink(node.bootstrap, topic(), work, two_phase=False)
    assert outcome is WriteOutcome.UNKNOWN


def test_transaction_that_hangs_among_decisions_is_named_with_what_ends_it(
    node: ServedNode,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    name = "decisions-with-a-hanging-transaction"
    place = TopicPartition(name, partition_of_key(b"sink", 2))

    async def read(within_ms: int) -> None:
        async with cluster_at(node.bootstrap) as cluster:
            await DecisionTopic(cluster=cluster, name=name, read_ms_max=within_ms).last("sink")

    with talk_with(node.bootstrap, name) as talk:
        leave_hanging(talk, partition=place.partition)
    command = f"transactions abort --topic {name}:{place.partition} --start-offset 1"
    with pytest.raises(TimedOut, match=f"no coordinator .* `penstock {command}`"):
        asyncio.run(read(500))
    ended = run_command(
        command, bootstrap=node.bootstrap, monkeypatch=monkeypatch, captured=capsysbinary
    )
    assert ended.status == 0, ended.err
    asyncio.run(read(READ_MS_MAX))


def test_commit_is_told_again_and_seen(node: ServedNode, topic: Topics) -> None:
    name = topic()

    async def work(shell: SinkShell) -> list[object]:
        prepared = await shell.write(b"row", run_id="run")
        async with shell.carrier() as carrier:
            asked = (
                Look(prepared.transactional_id),
                Commit(prepared),
                Commit(prepared),
                Look(prepared.transactional_id),
            )
            return [await carrier.carry_out(action) for action in asked]

    found = with_sink(node.bootstrap, name, work)
    assert found == [Seen.OPEN, True, True, Seen.COMMITTED]
    assert [record.value for record in committed_records(node.bootstrap, name)] == [b"row"]


def test_id_that_was_taken_over_is_committed_by_whoever_holds_it(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> list[object]:
        prepared = await shell.write(b"row", run_id="run")
        async with shell.carrier() as carrier:
            found = await carrier.carry_out(Reclaim(prepared.transactional_id))
            assert isinstance(found, Reclaimed)
            assert found.written_by == prepared
            answers = [await carrier.carry_out(Commit(prepared))]
            answers.append(await carrier.carry_out(Commit(found.held_by)))
            answers.append(await carrier.carry_out(Reclaim(prepared.transactional_id)))
            return answers

    assert with_sink(node.bootstrap, name, work) == [False, True, None]
    assert [record.value for record in committed_records(node.bootstrap, name)] == [b"row"]


@pytest.mark.parametrize("two_phase", [True, False])
def test_abort_is_seen_and_nothing_is_open_afterwards(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> list[object]:
        prepared = await shell.write(b"row", run_id="run")
        transactional_id = prepared.transactional_id
        async with shell.carrier() as carrier:
            asked = (
                ListOpen(prefix_of(shell.sink)),
                Abort(transactional_id),
                Abort(transactional_id),
                Look(transactional_id),
                Commit(prepared),
                ListOpen(prefix_of(shell.sink)),
            )
            answers = [await carrier.carry_out(action) for action in asked]
        assert answers[0] == (transactional_id,)
        return answers[3:]

    found = with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert found[1:] == [False, ()]
    assert found[0] in ((Seen.ABORTED, Seen.IDLE) if two_phase else (Seen.ABORTED,))
    assert committed_records(node.bootstrap, name) == []


def test_record_that_no_sink_wrote_is_in_nobodys_way(node: ServedNode, topic: Topics) -> None:
    name = topic(**{"cleanup.policy": "compact"})

    async def work(shell: SinkShell) -> tuple[object, object]:
        decisions = DecisionTopic(cluster=shell.cluster, name=name)
        async with Producer(shell.cluster) as producer:
            for key in (b"\xff", b"foreign"):
                await producer.send(name, b"?", key=key)
            await producer.flush()
        async with Carrier(shell.cluster, "sink", decisions, two_phase=True) as carrier:
            await carrier.carry_out(Fence())
            await carrier.carry_out(Write(RECORD))
        return (await decisions.last("sink")).record, await decisions.all()

    assert with_sink(node.bootstrap, topic(), work) == (RECORD, {"sink": RECORD})


def test_id_that_nobody_knows_has_done_nothing(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> object:
        async with shell.carrier() as carrier:
            return await carrier.carry_out(Look("nobody"))

    assert with_sink(node.bootstrap, topic(), work) is Seen.NONE
