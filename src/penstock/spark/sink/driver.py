"""What is done for a sink beside writing rows: plan, claim, decide, give up.

Which process does what (Spark 4.2, measured). For each batch of a query Spark has one Python
process make the writer and pickle it, twice; tasks run in others; commit and abort in yet another,
where the writer is made anew and knows nothing of the one that was pickled. The ids of query, run
and batch are told to tasks alone. So the sink is claimed by a task, that of partition 0, which the
others wait for; and what commit has to know comes with the messages of tasks. Those that abort gets
may all be None; then the last claim tells who failed, if it was made in the same place: a directory
that Spark gives to all Python processes of one driver, and to no other's.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ConnectionLost
from penstock.spark.connection import connect
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision import Claim, Prepared, SinkRecord
from penstock.spark.sink.decision_topic import DecisionTopic, Known
from penstock.spark.sink.errors import SecondWrite
from penstock.spark.sink.flows import (
    claim,
    decide,
    give_up,
    is_decided,
    is_late,
    may_write,
    must_claim,
    plan,
    resume,
)
from penstock.spark.sink.leftover_transactions import recover_writes
from penstock.spark.sink.options import SinkOptions, TwoPhase
from penstock.spark.sink.output_topics import need_topics
from penstock.spark.sink.record_change import Driver
from penstock.spark.sink.run_end import clear_idle, end_run
from penstock.spark.sink.single_writes import give_up as give_up_write
from penstock.spark.sink.single_writes import is_late as is_late_for_write
from penstock.spark.sink.single_writes import write_once
from penstock.spark.sink.two_phase import has_two_phase, warn_of_time_out

PLACE = "SPARK_LOCAL_DIRS"
CLAIMING_PARTITION = 0  # every batch has one
CLAIM_MS_MAX = 2_000
CLAIM_TURN_MS = 100  # each partition waits so much longer than the one before
CLAIM_TURNS = 64
CLAIM_POLL_MS = 50
# Spark lets the Python process of a task that it kills live for spark.python.task.killTimeout, two
# seconds, and then some.
KILL_MS_MAX = 4_000
WATCH_POLL_MS = 250
LOST_ANSWERS_MAX = 5  # of brokers that go, one after the other, while a batch is planned
LOST_ANSWER_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the tasks of a batch are told."""

    sink: str
    place: str  # where the driver runs
    two_phase: bool
    known: Known
    gaps: bool = False  # see Driver

    @property
    def found(self) -> SinkRecord | None:
        return self.known.record

    @property
    def for_tasks(self) -> "Plan":
        found = self.found
        record = None if found is None else found.for_tasks
        return replace(self, known=replace(self.known, record=record))

    def driver(self, claim: Claim) -> Driver:
        return Driver(sink=self.sink, claim=claim, two_phase=self.two_phase, gaps=self.gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOfBatch:
    batch_id: int
    partition: int  # of the data frame


async def plan_batch(options: SinkOptions, sink: str) -> Plan:
    """On the driver, before tasks begin. Nothing is changed by it; but there is a decision topic
    afterwards.
    """
    async with connect(options.connection) as cluster:
        await _need_output_topic(cluster, options)
        return await _plan(cluster, options, sink)


async def plan_write(
    options: SinkOptions, sink: str, claimed: Claim, batch_id: int, *, once: bool
) -> Plan:
    """The same for a write whose identity is known here: it claims at once, unless nobody else
    knows its sink. A run of a query has each batch once, so who finds it decided by the own claim
    writes it for the second time. What single writes have left is completed.
    """
    async with connect(options.connection) as cluster:
        planned = replace(await _plan(cluster, options, sink, is_new=once), gaps=True)
        driver = planned.driver(claimed)
        must = must_claim(claimed, planned.found)
        if not must and is_decided(claimed, batch_id, planned.found):
            raise SecondWrite(
                f"sink {sink}: batch {batch_id} has been written by this run already, and would be"
                " skipped: give each write of a batch its own sinkId"
            )
        await _need_output_topic(cluster, options)
        if not once and must:
            async with _carrier(cluster, options, driver, planned.known) as carrier:
                await carrier.run(claim(driver, batch_id, planned.found))
                await carrier.run(plan())
                assert carrier.known is not None
                planned = replace(planned, known=carrier.known)
        elif planned.found is not None and planned.found.has_given_up(claimed, batch_id):
            async with _carrier(cluster, options, driver, planned.known) as carrier:
                await carrier.run(resume(driver, batch_id))
        await recover_writes(_decisions(cluster, options))
        if once or must:
            _warn(cluster, options, driver)
        return planned


async def claim_run(options: SinkOptions, plan: Plan, driver: Driver, batch: TaskOfBatch) -> None:
    """In the task that claims, before it looks for rows: others that have some wait for it."""
    if batch.partition != CLAIMING_PARTITION or not must_claim(driver.claim, plan.found):
        return
    async with connect(options.connection) as cluster:
        await _claim(cluster, options, plan, driver, batch)


async def join_run(
    cluster: Cluster, options: SinkOptions, plan: Plan, driver: Driver, batch: TaskOfBatch
) -> None:
    """In the other tasks, before they write. In a run's first batch they wait for the claim; if
    that takes long, perhaps because there is no room for the one to run, they claim too.
    """
    if batch.partition == CLAIMING_PARTITION or not must_claim(driver.claim, plan.found):
        return
    async with _carrier(cluster, options, driver, plan.known) as carrier:
        turn_ms = batch.partition % CLAIM_TURNS * CLAIM_TURN_MS
        deadline_ms = cluster.clock.monotonic_ms() + CLAIM_MS_MAX + turn_ms
        while cluster.clock.monotonic_ms() < deadline_ms:
            if await carrier.run(may_write(driver, plan.found)):
                return
            await asyncio.sleep(CLAIM_POLL_MS / 1000)
    await _claim(cluster, options, plan, driver, batch)


async def _claim(
    cluster: Cluster, options: SinkOptions, plan: Plan, driver: Driver, batch: TaskOfBatch
) -> None:
    async with _carrier(cluster, options, driver, plan.known) as carrier:
        await carrier.run(claim(driver, batch.batch_id, plan.found))
    await recover_writes(_decisions(cluster, options))


async def is_late_for_batch(
    cluster: Cluster, options: SinkOptions, driver: Driver, plan: Plan, batch_id: int
) -> bool:
    """In a task that has written: whether its batch was decided without it."""
    async with _carrier(cluster, options, driver, plan.known) as carrier:
        return await carrier.run(is_late(driver, batch_id))


async def is_late_for_single(cluster: Cluster, options: SinkOptions, driver: Driver) -> bool:
    async with _carrier(cluster, options, driver) as carrier:
        return await carrier.run(is_late_for_write(driver))


async def decide_batch(
    options: SinkOptions,
    driver: Driver,
    known: Known,
    batch_id: int,
    prepared: list[Prepared],
) -> None:
    """On the driver, when all tasks have written; `known` is what was planned with."""
    async with (
        connect(options.connection) as cluster,
        _carrier(cluster, options, driver, known) as carrier,
    ):
        await carrier.run(decide(driver, batch_id, prepared))
        if must_claim(driver.claim, known.record) and not driver.gaps:
            _warn(cluster, options, driver)  # with a run's first batch: nobody knows it before


async def decide_write(
    options: SinkOptions, driver: Driver, known: Known, prepared: list[Prepared]
) -> None:
    """The same for a write whose sink is nobody else's."""
    async with (
        connect(options.connection) as cluster,
        _carrier(cluster, options, driver, known) as carrier,
    ):
        await carrier.run(write_once(driver, prepared))


async def give_up_batch(
    options: SinkOptions,
    sink: str,
    driver: Driver | None,
    batch_id: int,
    *,
    once: bool = False,
    watch_ms: int = 0,
) -> None:
    """After a batch has failed. Whose it was is asked of the last claim if nobody else tells. For
    so long (`watch_ms`) what tasks open that are killed meanwhile is aborted too. `once`: it is a
    write whose sink is nobody else's.
    """
    async with connect(options.connection) as cluster:
        decisions = _decisions(cluster, options)
        if driver is None:
            if not await decisions.exists():
                return
            last = (await decisions.last(sink)).record
            if last is None or last.claim.driver != place_of_driver():
                return
            two_phase = await has_two_phase(cluster, sink, options.two_phase)
            driver = Driver(sink=sink, claim=last.claim, two_phase=two_phase)
        async with _carrier(cluster, options, driver) as carrier:
            deadline_ms = cluster.clock.monotonic_ms() + watch_ms
            while True:
                await carrier.run(give_up_write(driver) if once else give_up(driver, batch_id))
                if cluster.clock.monotonic_ms() >= deadline_ms:
                    return
                await asyncio.sleep(WATCH_POLL_MS / 1000)


async def end_query(
    options: SinkOptions, sink: str, claimed: Claim, is_over: Callable[[], bool]
) -> None:
    """On the driver, when a run of a query has ended: nothing of it stays open. `is_over`: none of
    its tasks is running any more.
    """

    async def end(driver: Driver, carrier: Carrier) -> None:
        while True:
            was_over = is_over()
            await carrier.run(end_run(driver))
            if was_over:
                return
            await asyncio.sleep(WATCH_POLL_MS / 1000)

    await _for_run(options, sink, claimed, end)


async def clear_idle_query(options: SinkOptions, sink: str, claimed: Claim) -> None:
    """On the driver, while a query waits for data."""

    async def clear(driver: Driver, carrier: Carrier) -> None:
        await carrier.run(clear_idle(driver))

    await _for_run(options, sink, claimed, clear)


async def _for_run(
    options: SinkOptions,
    sink: str,
    claimed: Claim,
    work: Callable[[Driver, Carrier], Awaitable[None]],
) -> None:
    """Does some work for a run of a query; without a decision topic there is nothing to do."""
    async with connect(options.connection) as cluster:
        if not await _decisions(cluster, options).exists():
            return
        two_phase = await has_two_phase(cluster, sink, options.two_phase)
        driver = Driver(sink=sink, claim=claimed, two_phase=two_phase)
        async with _carrier(cluster, options, driver) as carrier:
            await work(driver, carrier)


async def _need_output_topic(cluster: Cluster, options: SinkOptions) -> None:
    """Before tasks begin; topics of a column are known to the tasks alone."""
    if options.topic is not None:
        await need_topics(cluster, options.connection, [options.topic])


async def _plan(cluster: Cluster, options: SinkOptions, sink: str, *, is_new: bool = False) -> Plan:
    """Asked again when a broker goes while it answers: nothing is changed by it, and else
    the query would fail though other brokers are there.
    """
    for _ in range(LOST_ANSWERS_MAX):
        try:
            return await _planned(cluster, options, sink, is_new=is_new)
        except ConnectionLost:
            await asyncio.sleep(LOST_ANSWER_SECONDS)
    return await _planned(cluster, options, sink, is_new=is_new)


async def _planned(cluster: Cluster, options: SinkOptions, sink: str, *, is_new: bool) -> Plan:
    decisions = _decisions(cluster, options)
    await decisions.make()
    two_phase = await has_two_phase(cluster, sink, options.two_phase)
    if is_new:
        known = await decisions.nothing(sink)
    else:
        async with Carrier(cluster, sink, decisions, two_phase=two_phase) as carrier:
            await carrier.run(plan())
            assert carrier.known is not None
            known = carrier.known
    return Plan(sink=sink, place=place_of_driver(), two_phase=two_phase, known=known)


def _warn(cluster: Cluster, options: SinkOptions, driver: Driver) -> None:
    """What a user should know of a run, told once and on the driver."""
    if not driver.two_phase and options.two_phase is not TwoPhase.OFF:
        warn_of_time_out(driver.sink)
    _decisions(cluster, options).warn_if_single(driver.sink)


def place_of_driver() -> str:
    return hashlib.sha256(os.environ.get(PLACE, "").encode()).hexdigest()[:16]


def _decisions(cluster: Cluster, options: SinkOptions) -> DecisionTopic:
    return DecisionTopic(
        cluster=cluster, name=options.decision_topic, replicas=options.decision_replicas
    )


@asynccontextmanager
async def _carrier(
    cluster: Cluster, options: SinkOptions, driver: Driver, known: Known | None = None
) -> AsyncIterator[Carrier]:
    decisions = _decisions(cluster, options)
    two_phase = driver.two_phase
    async with Carrier(cluster, driver.sink, decisions, two_phase=two_phase, known=known) as (
        carrier
    ):
        yield carrier
