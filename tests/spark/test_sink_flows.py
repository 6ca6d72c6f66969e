"""The sink's flows at a node: what is decided is there, what is not never will be."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.spark.sink.actions import Commit, Write
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.completion import mark_done
from penstock.spark.sink.decision import Claim, SinkRecord
from penstock.spark.sink.decision_topic import DecisionTopic, Known
from penstock.spark.sink.errors import (
    MissingBatch,
    OlderBatch,
    SecondWrite,
    SinkError,
    Superseded,
    Unfinished,
    UnknownDecisions,
)
from penstock.spark.sink.flows import claim, decide, give_up, is_late, plan, resume, take_away
from penstock.spark.sink.leftover_transactions import (
    end_sink,
    open_of_sink,
    recover_all,
    recover_writes,
)
from penstock.spark.sink.record_change import Driver, Flow
from penstock.spark.sink.single_writes import write_once
from rig.serve import ServedNode
from rig.sink_output import committed_values
from rig.sink_shell import DECISIONS, SinkShell, claimed, decided, dies_after, with_sink

Topics = Callable[..., str]


@pytest.mark.parametrize("two_phase", [True, False])
def test_batches_are_committed_and_what_failed_attempts_left_is_not(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        for batch_id in range(3):
            one = await shell.write(b"row %d" % batch_id, run_id="run", batch_id=batch_id)
            await shell.write(b"failed", run_id="run", batch_id=batch_id, partition=1)
            await decided(shell, "run", batch_id, one)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert committed_values(node.bootstrap, name) == [b"row 0", b"row 1", b"row 2"]


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("last", [Write, Commit])
def test_next_run_completes_what_is_decided_and_aborts_the_rest(
    node: ServedNode, topic: Topics, two_phase: bool, last: type[Write | Commit]
) -> None:
    name = topic(partitions=2)

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        rows = [await shell.write(b"%d" % n, run_id="first", partition=n) for n in range(2)]
        await dies_after(shell, decide(shell.driver("first"), 0, rows), last)
        await shell.write(b"undecided", run_id="first", batch_id=1)
        await claimed(shell, "second")
        again = await shell.write(b"again", run_id="second")
        await decided(shell, "second", 0, again)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert committed_values(node.bootstrap, name) == [b"0", b"1"]


def test_superseded_run_decides_nothing_and_never_claims_again(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        late = await shell.write(b"late", run_id="first")
        await claimed(shell, "second")
        with pytest.raises(Superseded, match=r"run second .* since run first"):
            await decided(shell, "first", 0, late)
        with pytest.raises(Superseded):
            await claimed(shell, "first")
        await decided(shell, "second", 0, await shell.write(b"row", run_id="second"))
        async with shell.carrier() as carrier:
            await carrier.run(give_up(shell.driver("first")))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row"]


@pytest.mark.parametrize(("batch_id", "error"), [(3, OlderBatch), (6, MissingBatch)])
def test_checkpoint_that_disagrees_with_the_decisions_is_an_error(
    node: ServedNode, topic: Topics, batch_id: int, error: type[SinkError]
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first", 4)
        await decided(shell, "first", 4, await shell.write(b"row", run_id="first", batch_id=4))
        with pytest.raises(error, match=f"batch {batch_id} of query query"):
            await claimed(shell, "second", batch_id)

    with_sink(node.bootstrap, topic(), work)


def test_query_that_comes_back_after_another_of_its_sinks_name_is_superseded(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        await decided(shell, "first", 0, await shell.write(b"row", run_id="first"))
        other = replace(shell.driver("b"), claim=Claim(query_id="other", run_id="b"))
        async with shell.carrier() as carrier:
            await carrier.run(claim(other, 0, await carrier.run(plan())))
            await carrier.run(decide(other, 0, [await shell.write(b"other", run_id="b")]))
        with pytest.raises(Superseded, match="query other has written under its name since"):
            await claimed(shell, "third")

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"other", b"row"]


def test_decisions_that_are_gone_are_missed(node: ServedNode, topic: Topics) -> None:
    another = topic(**{"cleanup.policy": "compact"})

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        await decided(shell, "first", 0, await shell.write(b"row", run_id="first"))
        decisions = DecisionTopic(cluster=shell.cluster, name=another)
        async with Carrier(shell.cluster, shell.sink, decisions, two_phase=True) as carrier:
            planned = await carrier.run(plan())
            with pytest.raises(MissingBatch, match="give another sinkId"):
                await carrier.run(claim(shell.driver("second"), 0, planned))
            await carrier.run(give_up(shell.driver("second"), 0))  # as Spark does with what failed
            planned = await carrier.run(plan())
            with pytest.raises(MissingBatch, match="give another sinkId"):
                await carrier.run(claim(shell.driver("third"), 0, planned))

    with_sink(node.bootstrap, topic(), work)


def decides_on(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    return decide(driver, 1, [])


def resumes(driver: Driver, record: SinkRecord) -> Flow[SinkRecord]:
    return resume(driver, 0)


@pytest.mark.parametrize("write", [decides_on, resumes, mark_done])
def test_run_whose_record_is_gone_leaves_the_decider_for_the_next_one_to_miss_it(
    node: ServedNode, topic: Topics, write: Callable[[Driver, SinkRecord], Flow[SinkRecord]]
) -> None:
    another = topic(**{"cleanup.policy": "compact"})

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        await decided(shell, "first", 0, await shell.write(b"row", run_id="first"))
        record = (await shell.decisions.last(shell.sink)).record
        assert record is not None
        decisions = DecisionTopic(cluster=shell.cluster, name=another)
        async with Carrier(shell.cluster, shell.sink, decisions, two_phase=True) as carrier:
            with pytest.raises(Superseded, match="its claim is gone"):
                await carrier.run(write(shell.driver("first"), record))
            with pytest.raises(MissingBatch, match="give another sinkId"):
                await carrier.run(claim(shell.driver("second"), 1, await carrier.run(plan())))

    with_sink(node.bootstrap, topic(), work)


def test_task_of_a_batch_long_decided_is_late(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> list[bool]:
        await claimed(shell, "run")
        for batch_id in range(2):
            row = await shell.write(b"row", run_id="run", batch_id=batch_id)
            await decided(shell, "run", batch_id, row)
        async with shell.carrier() as carrier:
            driver = shell.driver("run")
            return [await carrier.run(is_late(driver, batch_id)) for batch_id in range(3)]

    assert with_sink(node.bootstrap, topic(), work) == [True, True, False]


def test_program_that_leaves_batches_out_goes_on(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        driver = replace(shell.driver("run"), gaps=True)
        await claimed(shell, "run")
        for batch_id in (0, 3):
            row = await shell.write(b"row", run_id="run", batch_id=batch_id)
            async with shell.carrier() as carrier:
                await carrier.run(decide(driver, batch_id, [row]))

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row", b"row"]


def test_single_write_that_was_decided_is_completed_by_whoever_comes_next(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, write_once(shell.driver("run"), [row]), Write)
        await recover_writes(shell.decisions)
        assert shell.sink not in await shell.decisions.all()
        async with shell.carrier() as carrier:  # it had not died after all
            await carrier.run(write_once(shell.driver("run"), [row]))
        assert shell.sink not in await shell.decisions.all()

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row"]


def test_recovery_completes_what_a_query_has_decided(node: ServedNode, topic: Topics) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, decide(shell.driver("run"), 0, [row]), Write)
        done = {one.sink: one for one in await recover_all(shell.decisions)}
        assert (done[shell.sink].batch_id, done[shell.sink].transactions) == (0, 1)
        assert shell.sink not in {one.sink for one in await recover_all(shell.decisions)}

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row"]


def test_another_write_of_the_same_batch_under_one_name_is_refused_and_not_dropped(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        driver = replace(shell.driver("run"), gaps=True)
        one = await shell.write(b"one", run_id="run")
        other = await shell.write(b"other", run_id="run", partition=1)
        async with shell.carrier() as carrier:
            await carrier.run(decide(driver, 0, [one]))
            await carrier.run(decide(driver, 0, [one]))  # it did not know how the first one ended
            with pytest.raises(SecondWrite, match="its own sinkId"):
                await carrier.run(decide(driver, 0, [other]))
            await carrier.run(give_up(driver, 0))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"one"]


def test_nothing_is_decided_before_the_last_decision_is_complete(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        driver = shell.driver("run")
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, decide(driver, 0, [row]), Write)
        later = await shell.write(b"later", run_id="run", batch_id=1)
        async with shell.carrier() as carrier:
            with pytest.raises(Unfinished, match=r"batch 0 .* not yet complete"):
                await carrier.run(decide(driver, 1, [later]))
        await claimed(shell, "next", batch_id=1)

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row"]


def test_operator_with_a_topic_that_has_no_record_is_refused_even_if_nothing_is_open(
    node: ServedNode, topic: Topics
) -> None:
    """A batch that was open when the operator looked may be complete, and the next one begins."""
    another = topic(**{"cleanup.policy": "compact"})

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        await decided(shell, "run", 0, await shell.write(b"row", run_id="run"))
        others = DecisionTopic(cluster=shell.cluster, name=another)
        with pytest.raises(UnknownDecisions, match=f"{another} does not tell of sink {shell.sink}"):
            await end_sink(others, shell.sink)
        assert (await others.last(shell.sink)).record is None

    with_sink(node.bootstrap, topic(), work)


def test_operator_aborts_nothing_of_a_run_that_the_record_does_not_tell_of(
    node: ServedNode, topic: Topics
) -> None:
    """Unless it was checked: then nothing of it is decided."""
    name, another = topic(), topic(**{"cleanup.policy": "compact"})

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        other = await shell.write(b"other", run_id="run", partition=1)
        await dies_after(shell, decide(shell.driver("run"), 0, [row]), Write)
        others = DecisionTopic(cluster=shell.cluster, name=another)
        async with Carrier(shell.cluster, shell.sink, others, two_phase=True) as carrier:
            await carrier.run(take_away(shell.driver("operator"), {other.transactional_id}))
        left = await open_of_sink(shell.cluster, shell.sink)
        assert [one.transactional_id for one in left] == [row.transactional_id]
        await recover_all(shell.decisions)

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == [b"row"]


def test_operator_aborts_what_a_run_wrote_that_claimed_after_the_check(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        await shell.write(b"row", run_id="run")
        async with shell.carrier() as carrier:
            await carrier.run(take_away(shell.driver("operator"), ()))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == []


def test_run_that_claims_while_an_operator_looks_is_no_stranger(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        class ClaimedOnceRead(DecisionTopic):
            async def last(self, sink: str, known: Known | None = None) -> Known:
                found = await super().last(sink, known)
                if found.record is not None and found.record.claim.run_id == "first":
                    await claimed(shell, "second")
                    await shell.write(b"row", run_id="second")
                return found

        await claimed(shell, "first")
        await end_sink(ClaimedOnceRead(cluster=shell.cluster, name=DECISIONS), shell.sink)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work)
    assert committed_values(node.bootstrap, name) == []
