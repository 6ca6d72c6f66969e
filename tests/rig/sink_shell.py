"""A sink without Spark: its flows are carried out at a node, and its tasks are functions."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.client.network.cluster import Cluster
from penstock.client.produce.transactional_producer import TransactionalProducer, TransactionRules
from penstock.spark.sink.actions import Commit, Write
from penstock.spark.sink.carry_out import Carrier
from penstock.spark.sink.decision import Claim, Prepared
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.flows import claim, decide, plan
from penstock.spark.sink.names import TaskNumbers, first_attempt
from penstock.spark.sink.record_change import Driver, Flow
from penstock.spark.sink.task import witness_of
from rig.sink_output import cluster_at

NUMBERS = itertools.count(1)
DECISIONS = "decisions"
QUERY = "query"
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class SinkShell:
    """One sink, written to by any number of runs."""

    cluster: Cluster
    sink: str
    topic: str
    two_phase: bool = True
    decision_topic: str = DECISIONS

    @property
    def decisions(self) -> DecisionTopic:
        return DecisionTopic(cluster=self.cluster, name=self.decision_topic)

    def carrier(self) -> Carrier:
        return Carrier(self.cluster, self.sink, self.decisions, two_phase=self.two_phase)

    def driver(self, run_id: str) -> Driver:
        claim = Claim(query_id=QUERY, run_id=run_id)
        return Driver(sink=self.sink, claim=claim, two_phase=self.two_phase)

    async def write(
        self, value: bytes, *, run_id: str, batch_id: int = 0, partition: int = 0
    ) -> Prepared:
        """A task: it leaves its transaction open."""
        task = TaskNumbers(partition=partition, attempt=0, unique=next(NUMBERS))
        attempt = first_attempt(self.sink, run_id, batch_id, task, two_phase=self.two_phase)
        rules = TransactionRules(two_phase=self.two_phase, keep_prepared=self.two_phase)
        name = attempt.transactional_id
        async with TransactionalProducer(self.cluster, name, rules=rules) as producer:
            await producer.begin()
            delivery = await producer.send(self.topic, value)
            found = await producer.prepare()
        assert found is not None
        return Prepared(
            transactional_id=name,
            producer_id=found.producer_id,
            epoch=found.epoch,
            witness=witness_of([delivery]),
        )


@asynccontextmanager
async def sink_at(
    bootstrap: str, topic: str, *, two_phase: bool = True
) -> AsyncIterator[SinkShell]:
    async with cluster_at(bootstrap) as cluster:
        sink = f"sink.{next(NUMBERS)}"
        shell = SinkShell(cluster=cluster, sink=sink, topic=topic, two_phase=two_phase)
        await shell.decisions.make()
        yield shell


def with_sink(
    bootstrap: str,
    topic: str,
    work: Callable[[SinkShell], Awaitable[T]],
    *,
    two_phase: bool = True,
) -> T:
    async def run() -> T:
        async with sink_at(bootstrap, topic, two_phase=two_phase) as shell:
            return await work(shell)

    return asyncio.run(run())


async def dies_after(shell: SinkShell, flow: Flow[Any], last: type[Write | Commit]) -> None:
    """Carries a flow out up to and with the first action of a kind."""
    answer: object = None
    async with shell.carrier() as carrier:
        while True:
            action = flow.send(answer)
            answer = await carrier.carry_out(action)
            if isinstance(action, last):
                return


async def claimed(shell: SinkShell, run_id: str, batch_id: int = 0) -> None:
    """A run claims the sink, as the first task of its first batch does."""
    async with shell.carrier() as carrier:
        planned = await carrier.run(plan())
        await carrier.run(claim(shell.driver(run_id), batch_id, planned))


async def decided(shell: SinkShell, run_id: str, batch_id: int, *prepared: Prepared) -> None:
    async with shell.carrier() as carrier:
        await carrier.run(decide(shell.driver(run_id), batch_id, prepared))
