"""The flows of Spark's sink on Apache Kafka: within the time-out of transactions, the same."""

import asyncio
import time
from dataclasses import replace

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.admin.transaction_listing import TransactionDescription, abort_transaction
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import Refused
from penstock.spark.sink.actions import Commit, Write
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.errors import (
    LostTransaction,
    NoTwoPhase,
    UnknownDecisions,
    WrongDecisionTopic,
)
from penstock.spark.sink.flows import decide, give_up, is_late
from penstock.spark.sink.leftover_transactions import end_sink, open_of_sink, recover_all
from penstock.spark.sink.options import TwoPhase
from penstock.spark.sink.run_end import clear_idle, end_run
from penstock.spark.sink.two_phase import has_two_phase
from rig.apache_kafka.broker import ApacheKafka
from rig.sink_output import committed_records
from rig.sink_shell import SinkShell, claimed, dies_after, with_sink
from rig.taken_over import Takes, takes_it, takes_it_and_writes


async def make_topic(shell: SinkShell) -> None:
    new = NewTopic(name=shell.topic, partitions=2, replicas=1)
    first_refusal((await Admin(shell.cluster).create_topics([new])).values())


def test_two_phase_commit_is_not_to_be_had(apache_kafka: ApacheKafka) -> None:
    async def work(shell: SinkShell) -> bool:
        with pytest.raises(NoTwoPhase, match="option twoPhase is required"):
            await has_two_phase(shell.cluster, shell.sink, TwoPhase.REQUIRED)
        return await has_two_phase(shell.cluster, shell.sink, TwoPhase.AUTO)

    assert with_sink(apache_kafka.bootstrap, "two-phase", work, two_phase=False) is False


def test_next_run_completes_what_is_decided_and_aborts_the_rest(
    apache_kafka: ApacheKafka,
) -> None:
    async def work(shell: SinkShell) -> None:
        await make_topic(shell)
        await claimed(shell, "first")
        rows = [await shell.write(b"%d" % n, run_id="first", partition=n) for n in range(2)]
        await dies_after(shell, decide(shell.driver("first"), 0, rows), Write)
        await shell.write(b"undecided", run_id="first", batch_id=1)
        await claimed(shell, "second")
        again = await shell.write(b"again", run_id="second")
        async with shell.carrier() as carrier:
            await carrier.run(decide(shell.driver("second"), 0, [again]))
            after = await shell.write(b"after", run_id="second", batch_id=1)
            await carrier.run(decide(shell.driver("second"), 1, [after]))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(apache_kafka.bootstrap, "sink-completes", work, two_phase=False)
    found = committed_records(apache_kafka.bootstrap, "sink-completes")
    assert sorted(record.value or b"" for record in found) == [b"0", b"1", b"after"]


def test_decided_transaction_that_was_aborted_is_an_error(apache_kafka: ApacheKafka) -> None:
    async def work(shell: SinkShell) -> None:
        await make_topic(shell)
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        coordinators = Coordinators(shell.cluster, kind=CoordinatorKind.TRANSACTION)
        await abort_transaction(coordinators, row.transactional_id)
        with pytest.raises(LostTransaction, match="rows are lost"):
            await claimed(shell, "second")
        lost = {one.sink: one.lost for one in await recover_all(shell.decisions)}
        assert isinstance(lost[shell.sink], LostTransaction)

    with_sink(apache_kafka.bootstrap, "sink-loses", work, two_phase=False)


@pytest.mark.parametrize("takes", [takes_it, takes_it_and_writes])
def test_decided_transaction_whose_id_somebody_took_over_is_an_error_unless_it_was_committed(
    apache_kafka: ApacheKafka, takes: Takes
) -> None:
    name = f"sink-{takes.__name__.replace('_', '-')}"

    async def loses(shell: SinkShell) -> None:
        await make_topic(shell)
        await claimed(shell, "first")
        row = await shell.write(b"row", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Write)
        await takes(shell, row)
        with pytest.raises(LostTransaction, match="rows are lost"):
            await claimed(shell, "second")

    async def keeps(shell: SinkShell) -> None:
        await claimed(shell, "first")
        row = await shell.write(b"kept", run_id="first")
        await dies_after(shell, decide(shell.driver("first"), 0, [row]), Commit)
        await takes(shell, row)
        await claimed(shell, "second")

    with_sink(apache_kafka.bootstrap, name, loses, two_phase=False)
    with_sink(apache_kafka.bootstrap, name, keeps, two_phase=False)
    found = [record.value for record in committed_records(apache_kafka.bootstrap, name)]
    assert [value for value in found if value != b"foreign"] == [b"kept"]


def test_sink_is_ended_by_its_own_decision_topic_alone(apache_kafka: ApacheKafka) -> None:
    name = "sink-ends"

    async def work(shell: SinkShell) -> None:
        await make_topic(shell)
        others = DecisionTopic(cluster=shell.cluster, name=f"{name}-others")
        await others.make()
        await claimed(shell, "run")
        row = await shell.write(b"row", run_id="run")
        await dies_after(shell, decide(shell.driver("run"), 0, [row]), Write)
        with pytest.raises(UnknownDecisions, match="does not tell of run run"):
            await end_sink(others, shell.sink)
        with pytest.raises(UnknownDecisions, match="does not exist"):
            await end_sink(replace(others, name="nowhere"), shell.sink)
        assert await end_sink(shell.decisions, shell.sink) is None
        undecided = replace(shell, sink=f"{shell.sink}.undecided")
        await undecided.write(b"undecided", run_id="run")
        assert await end_sink(shell.decisions, undecided.sink) is None
        assert await left_open(undecided, 0) == []

    with_sink(apache_kafka.bootstrap, name, work, two_phase=False)
    assert [one.value for one in committed_records(apache_kafka.bootstrap, name)] == [b"row"]


async def left_open(shell: SinkShell, count: int) -> list[TransactionDescription]:
    """What is open, once it is so many: Kafka answers an abort before it writes the markers."""
    deadline = time.monotonic() + 120
    found = await open_of_sink(shell.cluster, shell.sink)
    while len(found) != count and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        found = await open_of_sink(shell.cluster, shell.sink)
    return found


def test_what_is_given_up_idle_or_ended_is_not_left_open(apache_kafka: ApacheKafka) -> None:
    async def work(shell: SinkShell) -> None:
        await make_topic(shell)
        await claimed(shell, "run")
        driver = shell.driver("run")
        async with shell.carrier() as carrier:
            row = await shell.write(b"row", run_id="run")
            await carrier.run(decide(driver, 0, [row]))
            await shell.write(b"left", run_id="run")
            kept = await shell.write(b"next", run_id="run", batch_id=1)
            await carrier.run(clear_idle(driver))
            [spared] = await left_open(shell, 1)
            assert spared.transactional_id == kept.transactional_id
            await carrier.run(give_up(driver, 1))
            await shell.write(b"straggler", run_id="run", batch_id=1)
            assert await carrier.run(is_late(driver, 1))
            await shell.write(b"killed", run_id="run", batch_id=1)
            await carrier.run(end_run(driver))
        assert await left_open(shell, 0) == []

    with_sink(apache_kafka.bootstrap, "sink-leaves", work, two_phase=False)
    found = committed_records(apache_kafka.bootstrap, "sink-leaves")
    assert [record.value for record in found] == [b"row"]


def test_decision_topic_has_the_replicas_that_are_asked_for(apache_kafka: ApacheKafka) -> None:
    async def work(shell: SinkShell) -> None:
        asked = replace(shell.decisions, name="decisions-of-two", replicas=2)
        with pytest.raises(Refused, match="replication factor of 2"):  # there is one broker
            await asked.make()
        await replace(asked, replicas=1).make()
        with pytest.raises(WrongDecisionTopic, match="it has 1 of 2 replicas"):
            await asked.make()

    with_sink(apache_kafka.bootstrap, "replicas", work, two_phase=False)
