"""`penstock transactions recover` and `abort --sink`: what a sink of Spark has left behind."""

from collections.abc import Callable

import pytest

from penstock.client.admin.transaction_listing import abort_transaction
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.spark.sink.actions import Write
from penstock.spark.sink.flows import claim, decide
from penstock.spark.sink.single_writes import write_once
from penstock.testing import Broker
from rig.command import Outcome
from rig.sink_output import committed_records
from rig.sink_shell import DECISIONS, SinkShell, dies_after, with_sink

Run = Callable[..., Outcome]
Command = Callable[[str], Outcome]


@pytest.fixture
def transactions(run: Run, penstock: Broker) -> Command:
    more = f"--decision-topic {DECISIONS}"
    return lambda text: run(f"transactions {text} {more}", bootstrap=penstock.bootstrap)


def test_decided_write_is_completed(transactions: Command, penstock: Broker) -> None:
    penstock.topic("orders")

    async def die(shell: SinkShell) -> str:
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, write_once(shell.driver("run"), [row]), Write)
        return shell.sink

    sink = with_sink(penstock.bootstrap, "orders", die)
    assert transactions("recover").text == f"sink {sink}, batch 0: 1 committed\n"
    assert transactions("recover").text == "nothing is left to complete\n"
    assert len(committed_records(penstock.bootstrap, "orders")) == 1


def test_what_a_query_given_up_has_open_is_ended(transactions: Command, penstock: Broker) -> None:
    penstock.topic("orders")

    async def die(shell: SinkShell) -> str:
        async with shell.carrier() as carrier:
            await carrier.run(claim(shell.driver("run"), 0, None))
        await shell.write(b"row", run_id="run")
        return shell.sink

    sink = with_sink(penstock.bootstrap, "orders", die)
    assert transactions(f"abort --sink {sink}").text.startswith(f"ended {sink}.run.0.0.0.0, open")
    assert transactions(f"abort --sink {sink}").text == f"sink {sink} has nothing open\n"
    assert committed_records(penstock.bootstrap, "orders") == []


def test_sink_whose_decided_rows_are_lost_is_freed_of_them(
    transactions: Command, penstock: Broker
) -> None:
    penstock.topic("orders")

    async def lose(shell: SinkShell) -> str:
        async with shell.carrier() as carrier:
            await carrier.run(claim(shell.driver("run"), 0, None))
        rows = [await shell.write(b"%d" % n, run_id="run", partition=n) for n in range(2)]
        await dies_after(shell, decide(shell.driver("run"), 0, rows), Write)
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, rows[0].transactional_id)
        return shell.sink

    sink = with_sink(penstock.bootstrap, "orders", lose, two_phase=False)
    said = f"sink {sink}: batch 0 of query query was decided, and 1 of its 2 transactions are"
    for command in ("recover", f"abort --sink {sink}"):
        told = transactions(command)
        assert told.status == 1
        assert said in told.err
    assert transactions("recover").text == "nothing is left to complete\n"
    assert [one.value for one in committed_records(penstock.bootstrap, "orders")] == [b"1"]


def test_only_one_thing_is_aborted_at_a_time(transactions: Command) -> None:
    refused = transactions("abort orders-1 --sink orders")
    assert refused.status == 2
    assert "abort what?" in refused.err
