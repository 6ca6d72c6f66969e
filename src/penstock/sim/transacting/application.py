"""An instance of an application: it takes the transactional id over and works in transactions.

With a source, it begins where its group has committed, and each transaction holds what it made of
some records together with how far it has read. An instance that was fenced, or does not know what
became of its transaction, takes the id over again, and so fences the others in its turn. Some
transactions it aborts, leaves open, or sleeps in until they have timed out.

With two phases, a database decides: a transaction whose records are all acked is prepared, the
database is told to commit it, and only then is the transaction ended. Whoever takes over finds it
open and does what the database says; what it does not know is aborted, and never decided for again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

from penstock.client.consume.consumer import Consumer, ConsumerRules
from penstock.client.consume.cursor import Reset
from penstock.client.consume.fetch_request import FetchRules
from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.client.consume.group_offsets import Committed, committed_offsets
from penstock.client.consume.isolation import Isolation
from penstock.client.network.coordinators import Coordinators
from penstock.client.network.errors import ClientError, Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicPartition
from penstock.sim.clients import CLUSTER_RULES, Laboratory, answered
from penstock.sim.history import Sent
from penstock.sim.kill_switch import KillSwitch
from penstock.sim.transacting.history import Attempt
from penstock.sim.transacting.lab import TransactionLab
from penstock.sim.transacting.plan import Application, Style, TransactionPlan
from penstock.sim.transacting.routes import OneNode
from penstock.sim.transacting.session import Session
from penstock.transactions.state import Identity

Positions = dict[TopicPartition, int]
Ends = Callable[[], Mapping[TopicPartition, int]]

VALUE_BYTES_MAX = 150  # so that a batch fits into the smallest segment
RECORDS_MAX = 5  # that one transaction takes from one partition of the source
ABORTS, LEFT_OPEN = 0.15, 0.06  # of all transactions


async def transact(
    application: Application,
    ends: Ends,
    lab: Laboratory,
    name: str,
    kill_switch: KillSwitch,
    chance: Random,
) -> None:
    """On a single node, until the simulation ends."""
    assert lab.scenario.transactions is not None
    async with lab.cluster(name, kill_switch) as cluster:
        session = Session(lab, name, cluster, application, ends=ends, routes=OneNode(cluster))
        await work(Instance(lab, name, session, lab.scenario.transactions, chance))


async def work(instance: "Instance") -> None:
    """Works until the simulation ends, and leaves nothing that only a database could end."""
    lab, name, chance = instance.lab, instance.name, instance.chance
    while not lab.ending:
        await _try(lab, name, instance.take_over_and_work())
        await asyncio.sleep(chance.random() * chance.choice((0.01, 0.1, 2.0)))
    if instance.application.style is Style.TWO_PHASE:
        taken_over = False
        while not taken_over:
            taken_over = await _try(lab, name, instance.take_over())
            await asyncio.sleep(chance.random() * 0.5)


async def _try(lab: TransactionLab, name: str, work: Coroutine[Any, Any, None]) -> bool:
    """Whether it came to its end."""
    try:
        await answered(name, "transactions", work)
    except ClientError as error:
        lab.trace.note(name, f"gives up: {error}")
        return False
    return True


class Instance:
    def __init__(
        self,
        lab: TransactionLab,
        name: str,
        session: Session,
        plan: TransactionPlan,
        chance: Random,
    ) -> None:
        self.lab = lab
        self.name = name
        self.chance = chance
        self.plan = plan
        self.session = session
        self.application = session.application
        self._begun = 0

    async def take_over_and_work(self) -> None:
        """Transaction after transaction, until one has no good end."""
        await self.take_over()
        if not self.application.reads:
            while not self.lab.ending:
                await self._transaction({}, [])
            return
        rules = ConsumerRules(
            reset=Reset.EARLIEST,
            request_ms_max=CLUSTER_RULES.request_ms_max,
            fetch=FetchRules(isolation=Isolation.READ_COMMITTED),
        )
        async with Consumer(self.session.cluster, rules=rules) as consumer:
            places = list(self.plan.source.places)
            positions = await self._committed(places)
            await consumer.assign(places)
            for place in places:
                consumer.seek(place, positions[place])
            while not self.lab.ending:
                inputs = await consumer.poll(wait_ms=200)
                taken = _some_of_each(inputs, self.chance.randint(1, RECORDS_MAX))
                if await self._transaction(positions, taken):
                    for record in taken:
                        place = TopicPartition(record.topic, record.partition)
                        positions[place] = record.offset + 1
                for place in places:
                    consumer.seek(place, positions[place])

    async def take_over(self) -> None:
        """The id is ours; with two phases, what a predecessor has prepared is ended first."""
        session = self.session
        trade_in = session.identity is not None and self.chance.random() < 0.3
        try:
            kept = await session.init(trade_in=trade_in)
        except Refused:
            session.identity = None  # it is of no worth any more
            raise
        if kept is not None:
            await self._end_as_decided(kept)

    async def _end_as_decided(self, kept: Identity) -> None:
        history = self.lab.history.transactions
        attempt = history.attempt_of(self.application.transactional_id, kept)
        commit = attempt is not None and history.decide(attempt, commit=False)
        await self.session.end(attempt, commit=commit)

    async def _committed(self, places: list[TopicPartition]) -> Positions:
        """Where the group has committed; a transaction that is about to change it is waited for,
        unless its coordinator may have forgotten it.
        """
        group = self.application.transactional_id
        coordinators = Coordinators(self.session.cluster)
        history = self.lab.history.transactions
        while True:
            least = {place: history.committed_offset(group, place) for place in places}
            found = await committed_offsets(coordinators, group, places, stable=True)
            refused = [told for told in found.values() if isinstance(told, Refused)]
            if not refused:
                break
            is_unstable = refused[0].code is ErrorCode.UNSTABLE_OFFSET_COMMIT
            if not is_unstable or history.nothing_promised:
                raise refused[0]
            await asyncio.sleep(0.05)
        positions = {}
        for place in places:
            told = found.get(place)
            positions[place] = int(told.offset) if isinstance(told, Committed) else 0
            history.see_offset(group, place, positions[place], least=least[place])
        return positions

    async def _transaction(self, positions: Positions, inputs: list[ConsumedRecord]) -> bool:
        """Whether it was committed."""
        chance, session = self.chance, self.session
        if self.application.reads and not inputs:
            await asyncio.sleep(0.05)
            return False
        attempt = self._begin(positions, inputs)
        batches = self._outputs(attempt, inputs)
        writes = [self._write(attempt, place, some) for place, some in batches.items()]
        if attempt.inputs:
            offsets = {place: until for place, (_, until) in attempt.inputs.items()}
            writes.append(session.commit_offsets(attempt, offsets))
        chance.shuffle(writes)
        if chance.random() < 0.5:
            await _all_of(writes)
        else:
            try:
                for write in writes:
                    await write
            finally:  # also when the client has crashed: those after it are never begun
                for write in writes:
                    write.close()
        committed = await self._end(attempt)
        await asyncio.sleep(chance.random() * self.application.pause_ms / 1000)
        return committed

    async def _end(self, attempt: Attempt) -> bool:
        """Whether by a commit."""
        chance, history = self.chance, self.lab.history.transactions
        if chance.random() < self.application.stall_chance:
            self.lab.trace.note(self.name, f"sleeps in {attempt.name}")
            await asyncio.sleep(self.application.timeout_ms * (0.5 + chance.random()) / 1000)
        if chance.random() < LEFT_OPEN:
            raise ClientError(f"{attempt.name} is left open")
        commit = chance.random() >= ABORTS
        if self.application.style is Style.TWO_PHASE:
            commit = history.decide(attempt, commit=commit)
            self.lab.trace.note(self.name, f"the database says {commit} about {attempt.name}")
            if chance.random() < LEFT_OPEN:
                raise ClientError(f"{attempt.name} is left prepared")
        await self.session.end(attempt, commit=commit)
        return commit

    def _begin(self, positions: Positions, inputs: list[ConsumedRecord]) -> Attempt:
        assert self.session.identity is not None
        self._begun += 1
        attempt = Attempt(
            name=f"{self.name}/{self._begun}",
            transactional_id=self.application.transactional_id,
            identity=self.session.identity,
        )
        for record in inputs:
            place = TopicPartition(record.topic, record.partition)
            attempt.inputs[place] = positions[place], record.offset + 1
        self.lab.history.transactions.begin(attempt)
        return attempt

    def _outputs(
        self, attempt: Attempt, inputs: list[ConsumedRecord]
    ) -> dict[TopicPartition, list[Sent]]:
        """What one record becomes lies in a partition told by that of the record, in its order."""
        places = [place for topic in self.plan.targets for place in topic.places]
        if inputs:
            into = [places[record.partition % len(places)] for record in inputs]
        else:
            into = [self.chance.choice(places) for _ in range(self.chance.randint(1, 4))]
        if len(places) > 1:
            into.append(places[-1])  # so that most transactions have several partitions
        batches: dict[TopicPartition, list[Sent]] = {}
        for number, place in enumerate(into):
            sent = self.lab.history.send(
                producer=attempt.name,
                number=number,
                topic=place.topic,
                key=f"{attempt.name}/{number}".encode(),
                value_bytes=self.chance.randint(0, VALUE_BYTES_MAX),
            )
            self.lab.history.transactions.send(attempt, sent.name)
            batches.setdefault(place, []).append(sent)
        return batches

    async def _write(self, attempt: Attempt, place: TopicPartition, sent: list[Sent]) -> None:
        """In one batch, or in two."""
        cut = self.chance.randint(1, len(sent))
        for some in (sent[:cut], sent[cut:]):
            if some:
                await self.session.produce(attempt, place, some)
            if self.application.write_pause_ms:
                await asyncio.sleep(self.chance.random() * self.application.write_pause_ms / 1000)


def _some_of_each(records: list[ConsumedRecord], count: int) -> list[ConsumedRecord]:
    taken: dict[tuple[str, int], list[ConsumedRecord]] = {}
    for record in records:
        of_place = taken.setdefault((record.topic, record.partition), [])
        if len(of_place) < count:
            of_place.append(record)
    return [record for of_place in taken.values() for record in of_place]


async def _all_of(writes: list[Coroutine[Any, Any, None]]) -> None:
    """At once; all have ended when this does, and the first trouble of any is raised."""
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
