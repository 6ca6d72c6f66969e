"""What batches, runs and sinks that are given up, idle or ended leave: nothing that is open."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.spark.sink.actions import Write
from penstock.spark.sink.decision import GivenUp
from penstock.spark.sink.errors import (
    BatchGivenUp,
    Superseded,
)
from penstock.spark.sink.flows import claim, decide, give_up, is_late, plan, resume
from penstock.spark.sink.leftover_transactions import end_sink, open_of_sink
from penstock.spark.sink.run_end import clear_idle, end_run
from rig.serve import ServedNode
from rig.sink_output import committed_values
from rig.sink_shell import SinkShell, claimed, decided, dies_after, with_sink

Topics = Callable[..., str]


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
    assert committed_values(node.bootstrap, name) == [b"row"]


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
    assert committed_values(node.bootstrap, name) == [b"row"]


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
    assert committed_values(node.bootstrap, name) == [b"row"]


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
    assert committed_values(node.bootstrap, name) == [b"0", b"1"]


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
    assert committed_values(node.bootstrap, name) == []


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
