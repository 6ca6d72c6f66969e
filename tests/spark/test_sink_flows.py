"""The sink's flows at a node: what is decided is there, what is not never will be."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from penstock.client.admin.transaction_listing import abort_transaction
from penstock.client.admin.transactions import fence
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.spark.sink.actions import Commit, Write
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision import Claim, GivenUp, Prepared
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.errors import (
    BatchGivenUp,
    LostTransaction,
    MissingBatch,
    OlderBatch,
    SecondWrite,
    SinkError,
    Superseded,
    TransactionTimedOut,
    Unfinished,
)
from penstock.spark.sink.flows import claim, decide, give_up, is_late, plan, resume
from penstock.spark.sink.leftover_transactions import (
    end_sink,
    open_of_sink,
    recover_all,
    recover_writes,
)
from penstock.spark.sink.run_end import clear_idle, end_run
from penstock.spark.sink.single_writes import write_once
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.sink_shell import SinkShell, dies_after, with_sink

Topics = Callable[..., str]


async def claimed(shell: SinkShell, run_id: str, batch_id: int = 0) -> None:
    async with shell.carrier() as carrier:
        planned = await carrier.run(plan())
        await carrier.run(claim(shell.driver(run_id), batch_id, planned))


async def decided(shell: SinkShell, run_id: str, batch_id: int, *prepared: Prepared) -> None:
    async with shell.carrier() as carrier:
        await carrier.run(decide(shell.driver(run_id), batch_id, prepared))


def values(node: ServedNode, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in committed_records(node.bootstrap, topic))


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
    assert values(node, name) == [b"row 0", b"row 1", b"row 2"]


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
    assert values(node, name) == [b"0", b"1"]


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
    assert values(node, name) == [b"row"]


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


def test_decided_transaction_that_timed_out_is_an_error(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, row.transactional_id)
        with pytest.raises(LostTransaction, match="its rows are lost"):
            await claimed(shell, "second")
        told = {one.sink: one.lost for one in await recover_all(shell.decisions)}
        assert isinstance(told[shell.sink], LostTransaction)
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        await claimed(shell, "third", 1)

    with_sink(node.bootstrap, topic(), work, two_phase=False)


async def takes_it(shell: SinkShell, row: Prepared) -> None:
    await fence(shell.cluster, row.transactional_id)


async def takes_it_and_writes(shell: SinkShell, row: Prepared) -> None:
    """What the coordinator says of the id afterwards is of this transaction."""
    async with (
        TransactionalProducer(shell.cluster, row.transactional_id) as other,
        other.transaction(),
    ):
        await other.send(shell.topic, b"foreign")


async def takes_it_and_leaves_it_open(shell: SinkShell, row: Prepared) -> None:
    rules = TransactionRules(two_phase=shell.two_phase)
    async with TransactionalProducer(shell.cluster, row.transactional_id, rules=rules) as other:
        await other.begin()
        await other.send(shell.topic, b"foreign")
        await other.prepare()


Takes = Callable[[SinkShell, Prepared], Awaitable[None]]
TAKEN = [takes_it, takes_it_and_writes, takes_it_and_leaves_it_open]


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("takes", TAKEN)
def test_decided_transaction_whose_id_somebody_took_over_is_an_error(
    node: ServedNode, topic: Topics, two_phase: bool, takes: Takes
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        await takes(shell, row)
        with pytest.raises(LostTransaction, match="its rows are lost"):
            await claimed(shell, "second")
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        await claimed(shell, "third", 1)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, topic(), work, two_phase=two_phase)


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("takes", TAKEN)
def test_decided_transaction_whose_id_was_taken_over_after_its_commit_is_there(
    node: ServedNode, topic: Topics, two_phase: bool, takes: Takes
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Commit)
        await takes(shell, row)
        await claimed(shell, "second")
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert b"row" in values(node, name)


@pytest.mark.parametrize("takes", TAKEN)
def test_decided_transaction_that_nothing_is_known_of_is_an_error(
    node: ServedNode, topic: Topics, takes: Takes
) -> None:
    """Whatever the coordinator says of its id: that may be of another transaction."""

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = replace(await shell.write(b"row", run_id="first"), witness=None)
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        await takes(shell, row)
        with pytest.raises(LostTransaction, match="gone from the topic"):
            await claimed(shell, "second")
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, topic(), work)


@pytest.mark.parametrize("two_phase", [True, False])
def test_task_that_writes_when_its_batch_was_given_up_leaves_nothing_open(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        driver = shell.driver("run")
        async with shell.carrier() as carrier:
            assert not await carrier.run(is_late(driver, 0))
            await carrier.run(give_up(driver, 0))
            row = await shell.write(b"straggler", run_id="run")
            assert await carrier.run(is_late(driver, 0))
            assert await open_of_sink(shell.cluster, shell.sink) == []
            with pytest.raises(BatchGivenUp, match="batch 0 of query query"):
                await carrier.run(decide(driver, 0, [row]))
        await claimed(shell, "next")
        await decided(shell, "next", 0, await shell.write(b"row", run_id="next"))

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert values(node, name) == [b"row"]


def test_batch_that_was_given_up_is_written_again_by_the_program_that_calls_for_it(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        driver = replace(shell.driver("run"), gaps=True)
        async with shell.carrier() as carrier:
            await shell.write(b"failed", run_id="run")
            await carrier.run(give_up(driver, 0))
            await carrier.run(resume(driver, 0))
            row = await shell.write(b"row", run_id="run", partition=1)
            assert not await carrier.run(is_late(driver, 0))
            await carrier.run(decide(driver, 0, [row]))

    with_sink(node.bootstrap, name, work)
    assert values(node, name) == [b"row"]


@pytest.mark.parametrize("two_phase", [True, False])
def test_run_that_has_ended_leaves_nothing_open_and_completes_what_it_decided(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, decide(shell.driver("run"), 0, [row]), Write)
        await shell.write(b"undecided", run_id="run", partition=1)
        async with shell.carrier() as carrier:
            await carrier.run(end_run(shell.driver("run")))
            assert await open_of_sink(shell.cluster, shell.sink) == []
            with pytest.raises(BatchGivenUp):
                await carrier.run(claim(shell.driver("run"), 1, await carrier.run(plan())))

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert values(node, name) == [b"row"]


@pytest.mark.parametrize("two_phase", [True, False])
def test_idle_query_clears_what_its_last_batch_has_left_and_spares_the_next(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        await decided(shell, "run", 0, await shell.write(b"0", run_id="run"))
        await shell.write(b"left", run_id="run", partition=1)
        row = await shell.write(b"1", run_id="run", batch_id=1)
        async with shell.carrier() as carrier:
            await carrier.run(clear_idle(shell.driver("run")))
        [spared] = await open_of_sink(shell.cluster, shell.sink)
        assert spared.transactional_id == row.transactional_id
        await decided(shell, "run", 1, row)

    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert values(node, name) == [b"0", b"1"]


def test_batch_with_a_transaction_that_timed_out_is_not_decided(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, row.transactional_id)
        with pytest.raises(
            TransactionTimedOut, match=r"batch 0 of query query: .* can be repeated"
        ):
            await decided(shell, "first", 0, row)
        await claimed(shell, "second")
        await decided(shell, "second", 0, await shell.write(b"again", run_id="second"))

    with_sink(node.bootstrap, name, work, two_phase=False)
    assert values(node, name) == [b"again"]


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
    assert values(node, name) == [b"other", b"row"]


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
    assert values(node, name) == [b"row", b"row"]


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
    assert values(node, name) == [b"row"]


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
    assert values(node, name) == [b"row"]


def test_sink_that_is_given_up_leaves_nothing_open_and_decides_nothing_more(
    node: ServedNode, topic: Topics
) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        [left] = await open_of_sink(shell.cluster, shell.sink)
        assert left.transactional_id == row.transactional_id
        await end_sink(shell.decisions, shell.sink)
        assert await open_of_sink(shell.cluster, shell.sink) == []
        with pytest.raises(Superseded):
            await decided(shell, "run", 0, row)

    with_sink(node.bootstrap, name, work)
    assert values(node, name) == []


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
            with pytest.raises(SecondWrite, match="sinkId of its own"):
                await carrier.run(decide(driver, 0, [other]))
            await carrier.run(give_up(driver, 0))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert values(node, name) == [b"one"]


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
    assert values(node, name) == [b"row"]


def test_a_run_that_has_ended_stays_ended(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "run")
        driver = shell.driver("run")
        async with shell.carrier() as carrier:
            await carrier.run(end_run(driver))
            await carrier.run(give_up(driver, 3))
            found = await carrier.run(plan())
        assert found is not None
        assert found.given_up == GivenUp(run_id="run", batch_id=None)

    with_sink(node.bootstrap, topic(), work)
