"""`penstock transactions recover` and `abort --sink`: what a sink of Spark has left behind."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.client.admin.transaction_listing import abort_transaction
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.spark.sink.actions import Fence, Write
from penstock.spark.sink.flows import claim, decide
from penstock.spark.sink.names import single_write_sink
from penstock.spark.sink.single_writes import write_once
from penstock.testing import Broker, running_broker
from rig.command import Outcome
from rig.sink_output import committed_records
from rig.sink_shell import DECISIONS, SinkShell, claimed, dies_after, with_sink

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


@pytest.mark.parametrize("topic", ["nowhere", "others"])
def test_what_is_decided_in_another_topic_is_not_aborted(
    run: Run, transactions: Command, penstock: Broker, topic: str
) -> None:
    penstock.topic("orders")
    penstock.topic("others", cleanup_policy="compact")

    async def die(shell: SinkShell) -> str:
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, decide(shell.driver("run"), 0, [row]), Write)
        return shell.sink

    sink = with_sink(penstock.bootstrap, "orders", die)
    command = f"transactions abort --sink {sink} --decision-topic {topic}"
    refused = run(command, bootstrap=penstock.bootstrap)
    assert (refused.status, len(refused.err.splitlines())) == (1, 1)
    assert f"topic {topic} does not" in refused.err
    assert "--decision-topic" in refused.err
    assert transactions(f"abort --sink {sink}").status == 0
    assert [one.value for one in committed_records(penstock.bootstrap, "orders")] == [b"row"]


@pytest.mark.parametrize("forgets", [False, True])
def test_single_write_without_a_decision_is_ended_unless_its_decider_may_be_forgotten(
    run: Run, forgets: bool
) -> None:
    settings = {"transactional.id.expiration.ms": 1 if forgets else 60_000}

    async def die(shell: SinkShell) -> str:
        await shell.write(b"row", run_id="run")
        return shell.sink

    with running_broker(settings=settings) as penstock:
        penstock.topic("orders")
        sink = with_sink(penstock.bootstrap, "orders", die)
        command = f"transactions abort --sink {sink} --decision-topic {DECISIONS}"
        ended = run(command, bootstrap=penstock.bootstrap)
        assert ended.status == (1 if forgets else 0)
        open_ids = run("transactions list --state Ongoing", bootstrap=penstock.bootstrap).text
        assert (sink in open_ids) == forgets


@pytest.mark.parametrize("is_complete", [True, False])
def test_what_a_single_write_without_a_record_has_left_is_ended_by_its_id_as_the_refusal_says(
    run: Run, transactions: Command, penstock: Broker, is_complete: bool
) -> None:
    """It is complete, and an attempt was killed; or its driver died just before the decision."""
    penstock.topic("orders")
    run_id = str(uuid.uuid4())
    sink = single_write_sink(run_id)

    async def leave(shell: SinkShell) -> str:
        shell = replace(shell, sink=sink)
        row = await shell.write(b"row", run_id=run_id)
        async with shell.carrier() as carrier:
            if not is_complete:
                await carrier.carry_out(Fence())
                return row.transactional_id
            await carrier.run(write_once(shell.driver(run_id), [row]))
        return (await shell.write(b"killed", run_id=run_id, partition=1)).transactional_id

    left = with_sink(penstock.bootstrap, "orders", leave)
    refused = transactions(f"abort --sink {sink}")
    assert (refused.status, len(refused.err.splitlines())) == (1, 1)
    assert "abort it by its id" in refused.err
    assert transactions("recover").text == "nothing is left to complete\n"
    assert run(f"transactions abort {left}", bootstrap=penstock.bootstrap).status == 0
    assert transactions(f"abort --sink {sink}").text == f"sink {sink} has nothing open\n"
    values = [one.value for one in committed_records(penstock.bootstrap, "orders")]
    assert values == ([b"row"] if is_complete else [])


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
