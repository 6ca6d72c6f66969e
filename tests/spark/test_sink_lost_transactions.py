"""Transactions of the sink that timed out, or whose ids others took over: none is lost silently."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.admin.transaction_listing import abort_transaction
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import TimedOut
from penstock.spark.sink.actions import Commit, ListOpen, Write
from penstock.spark.sink.decision import FORMER_MAX
from penstock.spark.sink.decision_topic import DecisionTopic, Known
from penstock.spark.sink.errors import (
    LostTransaction,
    Superseded,
    TransactionTimedOut,
)
from penstock.spark.sink.flows import decide, take_away
from penstock.spark.sink.leftover_transactions import end_sink, open_of_sink, recover_all
from rig.serve import ServedNode
from rig.sink_output import committed_values
from rig.sink_shell import SinkShell, claimed, decided, dies_after, with_sink
from rig.taken_over import TAKEN, Takes

Topics = Callable[..., str]


def test_decided_transaction_that_timed_out_is_an_error(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, row.transactional_id)
        with pytest.raises(LostTransaction, match="rows are lost"):
            await claimed(shell, "second")
        told = {one.sink: one.lost for one in await recover_all(shell.decisions)}
        assert isinstance(told[shell.sink], LostTransaction)
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        await claimed(shell, "third", 1)

    with_sink(node.bootstrap, topic(), work, two_phase=False)


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
        with pytest.raises(LostTransaction, match="rows are lost"):
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
    assert b"row" in committed_values(node.bootstrap, name)


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
        with pytest.raises(LostTransaction, match="missing in the topic"):
            await claimed(shell, "second")
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, topic(), work)


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
            TransactionTimedOut, match=r"batch 0 of query query has timed out: .* can be repeated"
        ):
            await decided(shell, "first", 0, row)
        await claimed(shell, "second")
        await decided(shell, "second", 0, await shell.write(b"again", run_id="second"))

    with_sink(node.bootstrap, name, work, two_phase=False)
    assert committed_values(node.bootstrap, name) == [b"again"]


def test_operator_ends_a_sink_whose_lost_decision_is_older_than_all_runs_that_are_remembered(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await shell.write(b"killed", run_id="first", partition=1)
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, row.transactional_id)
        for restart in range(FORMER_MAX + 1):
            with pytest.raises(LostTransaction):
                await claimed(shell, f"again-{restart}")
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, topic(), work)


async def lost_row(shell: SinkShell) -> None:
    """It was decided by a run whose driver died then."""
    await claimed(shell, "first")
    row = await shell.write(b"row", run_id="first")
    await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
    coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
    await abort_transaction(coordinators, row.transactional_id)


def test_loss_is_told_again_if_a_run_claims_while_an_operator_ends_the_sink(
    node: ServedNode, topic: Topics
) -> None:
    """A supervisor starts the query again and again."""

    async def work(shell: SinkShell) -> None:
        await lost_row(shell)
        flow = take_away(shell.driver("operator"), ())
        answer: object = None
        async with shell.carrier() as carrier:
            with pytest.raises(Superseded):
                while True:
                    action = flow.send(answer)
                    if isinstance(action, ListOpen):
                        with pytest.raises(LostTransaction):
                            await claimed(shell, "restarted")
                    answer = await carrier.carry_out(action)
        assert isinstance(await end_sink(shell.decisions, shell.sink), LostTransaction)

    with_sink(node.bootstrap, topic(), work)


def test_loss_is_told_though_an_answer_is_missing_when_the_sink_is_freed_of_it(
    tmp_path: Path,
) -> None:
    """Without two-phase commit what was written is read back. It is not told a second time."""

    class SilentOnceDone(DecisionTopic):
        async def last(self, sink: str, known: Known | None = None) -> Known:
            found = await super().last(sink, known)
            if found.record is not None and found.record.is_done:
                raise TimedOut("no answer")
            return found

    async def work(shell: SinkShell) -> None:
        await Admin(shell.cluster).create_topics([NewTopic(name=shell.topic, partitions=1)])
        await lost_row(shell)
        silent = SilentOnceDone(cluster=shell.cluster, name=shell.decision_topic)
        with pytest.raises(LostTransaction, match="rows are lost"):
            await end_sink(silent, shell.sink)
        assert await recover_all(shell.decisions) == []

    node = ServedNode(data=tmp_path / "node")
    node.start()
    with_sink(node.bootstrap, "rows", work, two_phase=False)
    assert node.stop() == 0
