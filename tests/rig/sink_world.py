"""A small world for the flows of the sink: transactions, a decision topic, drivers and tasks.

Every actor is a generator that does one thing a step; whoever holds the world chooses whose step is
next, which answers are lost, who dies, and whose query is stopped. Rows are (batch, partition,
part).
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

from penstock.client.produce.prepared_transaction import Ending
from penstock.spark.sink import actions
from penstock.spark.sink.actions import Action, Reclaimed, Seen, WriteOutcome
from penstock.spark.sink.decision import Claim, Decided, Prepared, SinkRecord, decode, encode
from penstock.spark.sink.errors import SinkError
from penstock.spark.sink.flows import (
    claim,
    decide,
    give_up,
    is_decided,
    is_late,
    may_write,
    must_claim,
    plan,
)
from penstock.spark.sink.names import (
    Attempt,
    TaskNumbers,
    attempt_of,
    decider_id,
    first_attempt,
    next_attempt,
)
from penstock.spark.sink.record_change import Driver
from penstock.spark.sink.run_end import clear_idle, end_run

SINK = "orders.view"
QUERY = "query"
PARTITIONS = 2
PARTS = 2  # of what a task writes, each by itself
FENCED_STEPS_MAX = 8
PATIENCE = 6
Row = tuple[int, int, int]
Steps = Generator[None, None, None]


@dataclass(slots=True)
class Held:
    """What a coordinator knows of one transactional id."""

    epoch: int = -1
    written_by: Prepared | None = None  # while it is open
    rows: list[Row] = field(default_factory=list)
    state: Seen = Seen.NONE
    previous: Prepared | None = None  # who traded its identity in with the last commit


class Cluster:
    """Transactions and decisions, as far as the sink can tell."""

    def __init__(self, *, two_phase: bool) -> None:
        self.two_phase = two_phase
        self.ids: dict[str, Held] = {}
        self.decider_epoch = 0
        self.record: bytes | None = None
        self.decisions: list[Decided] = []
        self.superseded: list[str] = []  # runs
        self.committed: list[Row] = []
        self.markers: dict[Prepared, Ending] = {}  # of transactions, by who wrote them

    @property
    def last(self) -> SinkRecord | None:
        return None if self.record is None else decode(self.record)

    def take_over(self, transactional_id: str) -> Reclaimed | Prepared:
        """InitProducerId: with two-phase commit it keeps what is prepared, else it aborts it."""
        held = self.ids.setdefault(transactional_id, Held())
        if not self.two_phase:
            self.abort(transactional_id)
        held.epoch += 1
        held.previous = None
        now = Prepared(transactional_id=transactional_id, producer_id=1, epoch=held.epoch)
        if held.written_by is not None:
            return Reclaimed(written_by=held.written_by, held_by=now)
        held.state = Seen.IDLE
        return now

    def fence(self, transactional_id: str) -> None:
        """Somebody who has nothing to do with the sink takes an id, and keeps nothing."""
        held = self.ids[transactional_id]
        self.abort(transactional_id)
        held.epoch += 1
        held.previous = None
        held.state = Seen.IDLE

    def holder(self, transactional_id: str) -> Prepared | None:
        held = self.ids[transactional_id]
        if held.written_by is None:
            return None
        return Prepared(transactional_id=transactional_id, producer_id=1, epoch=held.epoch)

    def abort_of(self, who: Prepared) -> None:
        if self.holder(who.transactional_id) == who:
            self.abort(who.transactional_id)

    @property
    def lost(self) -> list[Prepared]:
        """What was decided and has been aborted all the same."""
        named = [one for decided in self.decisions for one in decided.transactions]
        return [one for one in named if self.markers.get(one) is Ending.ABORTED]

    def write(self, who: Prepared, row: Row) -> bool:
        """Whether the row was taken. Taking an id over keeps out whoever has not begun to write;
        who has can go on in partitions that know the transaction, until it is ended.
        """
        held = self.ids[who.transactional_id]
        if held.epoch != who.epoch and held.written_by != who:
            return False
        held.written_by = held.written_by or who
        held.state = Seen.OPEN
        held.rows.append(row)
        return True

    def commit(self, who: Prepared) -> bool:
        held = self.ids[who.transactional_id]
        if held.epoch != who.epoch or held.written_by is None:
            return held.state is Seen.COMMITTED and held.previous == who
        named = [one for decided in self.decisions for one in decided.transactions]
        assert held.written_by in named, f"{who} was committed and nobody decided it"
        self.committed += held.rows
        assert len(set(self.committed)) == len(self.committed), f"twice: {held.rows}"
        self._end(held, Seen.COMMITTED)
        held.previous = who
        return True

    def abort(self, transactional_id: str) -> None:
        held = self.ids[transactional_id]
        if held.written_by is not None:
            self._end(held, Seen.ABORTED)
            held.previous = None

    def withdraw(self, who: Prepared) -> None:
        """A task takes its id once more, which aborts what it has written."""
        held = self.ids[who.transactional_id]
        if held.written_by == who:
            self._end(held, Seen.IDLE)
            held.previous = None

    def time_out(self) -> None:
        """All that is open longer than a transaction may be; two-phase ones may for ever."""
        if not self.two_phase:
            for transactional_id in self.open_ids():
                self.abort(transactional_id)

    def time_out_undecided(self) -> None:
        """All that is open and in no decision, as that is older than what was decided since."""
        named = {one.transactional_id for batch in self.decisions for one in batch.transactions}
        for transactional_id in self.open_ids():
            if transactional_id not in named:
                self.abort(transactional_id)

    def open_ids(self) -> tuple[str, ...]:
        return tuple(name for name, held in self.ids.items() if held.written_by is not None)

    def decide(self, record: SinkRecord | None, fenced_with: int) -> WriteOutcome:
        if fenced_with != self.decider_epoch:
            return WriteOutcome.FENCED
        assert record is not None, "a query's record stays"
        held_by = None if self.last is None else self.last.claim.run_id
        if held_by is not None and held_by != record.claim.run_id:
            self.superseded.append(held_by)
        assert record.claim.run_id not in self.superseded, "a run of old takes the sink back"
        self.record = encode(record)
        if record.unfinished is not None and record.unfinished not in self.decisions:
            assert not any(
                (one.query_id, one.batch_id)
                == (record.unfinished.query_id, record.unfinished.batch_id)
                for one in self.decisions
            ), "a batch is decided once"
            self.decisions.append(record.unfinished)
        if record.is_done and record.decided is not None:
            for one in record.decided.transactions:
                assert self.markers.get(one) is Ending.COMMITTED, "DONE, and one is not committed"
        return WriteOutcome.WRITTEN

    def _end(self, held: Held, state: Seen) -> None:
        assert held.written_by is not None
        committed = state is Seen.COMMITTED
        self.markers[held.written_by] = Ending.COMMITTED if committed else Ending.ABORTED
        held.rows = []
        held.written_by = None
        held.state = state
        held.epoch += 1


@dataclass(slots=True, kw_only=True)
class Job:
    """The tasks of one batch: what they were told, and what they have come to."""

    driver: Driver
    batch_id: int
    planned: SinkRecord | None
    tried: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    done: dict[int, Prepared | None] = field(default_factory=dict)
    error: SinkError | None = None


class SinkWorld:
    """See the module. So many answers to a Write are lost (`losses`), and steps of tasks fail."""

    def __init__(self, dice: Random, *, two_phase: bool, batches: int) -> None:
        self.dice = dice
        self.cluster = Cluster(two_phase=two_phase)
        self.batches = batches
        self.committed_batches = 0  # Spark's own commit log
        self.runs = 0
        self.tried = 0  # tasks
        self.drivers: dict[str, Steps] = {}
        self.tasks: dict[str, Steps] = {}
        self.errors: list[SinkError] = []
        self.losses = 0
        self.failing = 0
        self.killed: set[str] = set()  # runs whose driver died
        self.stopped: set[str] = set()  # runs whose query is being stopped

    def start_driver(self) -> str:
        self.runs += 1
        run_id = f"run{self.runs}"
        self.drivers[run_id] = self._drive(self._driver(run_id))
        return run_id

    def step(self, name: str) -> bool:
        """Whether the actor has more to do."""
        actors = self.drivers if name in self.drivers else self.tasks
        try:
            next(actors[name])
        except StopIteration:
            del actors[name]
            return False
        return True

    def kill(self, run_id: str) -> None:
        del self.drivers[run_id]
        self.killed.add(run_id)

    def idle(self, run_id: str) -> None:
        """Spark tells the driver that a query is idle; by now it may be at work again."""
        self.tried += 1
        self.tasks[f"idle {self.tried}"] = self._carry_out(clear_idle(self._driver(run_id)))

    def fail(self, run_id: str) -> None:
        """The batch fails, and Spark does nothing but to give it up: its tasks go on."""
        driver = self._driver(run_id)
        self.drivers[run_id] = self._quietly(give_up(driver, self.committed_batches))

    @property
    def finished(self) -> bool:
        return self.committed_batches == self.batches

    def check(self) -> None:
        """When all is quiet: every row is there once, and nothing is left open."""
        wanted = set(product(range(self.committed_batches), range(PARTITIONS), range(PARTS)))
        assert set(self.cluster.committed) == wanted, self.cluster.committed
        assert len(self.cluster.committed) == len(wanted)
        assert self.cluster.open_ids() == ()

    def check_left(self) -> None:
        """When all is quiet and nobody comes to clear up: only those that were killed have left
        transactions open.
        """
        runs = {_run_of(name) for name in self.cluster.open_ids()}
        assert runs <= self.killed, self.cluster.open_ids()

    def _driver(self, run_id: str) -> Driver:
        return Driver(
            sink=SINK,
            claim=Claim(query_id=QUERY, run_id=run_id),
            two_phase=self.cluster.two_phase,
        )

    def _drive(self, driver: Driver) -> Steps:
        """A query, which may be stopped at any step, and then what is done when it has ended."""
        run_id = driver.claim.run_id
        batches = self._run_batches(driver)
        for _ in batches:
            if run_id in self.stopped:
                batches.close()
                if self.dice.random() < 0.7:  # Spark may not come to it
                    yield from self._quietly(give_up(driver, self.committed_batches))
                break
            yield
        yield from self._end_run(driver)

    def _end_run(self, driver: Driver) -> Steps:
        """Spark ends the tasks that are left, one by one, and does not wait for them."""
        run_id = driver.claim.run_id
        while True:
            left = [name for name in self.tasks if _run_of(name.partition("#")[0]) == run_id]
            yield from self._quietly(end_run(driver))
            if not left:
                return
            yield
            for name in left:
                if name in self.tasks and self.dice.random() < 0.2:
                    del self.tasks[name]

    def _quietly(self, flow: Generator[Action, Any, Any]) -> Steps:
        """Whatever trouble there is has been told, or is not this driver's."""
        try:
            yield from self._carry_out(flow)
        except SinkError as error:
            self.errors.append(error)

    def _run_batches(self, driver: Driver) -> Steps:
        """A query: runs its batches, and gives up on trouble as Spark does."""
        try:
            while not self.finished:
                batch_id = self.committed_batches
                planned = yield from self._carry_out(plan())
                try:
                    prepared = yield from self._run_tasks(driver, batch_id, planned)
                    yield from self._carry_out(decide(driver, batch_id, prepared))
                except SinkError:
                    yield from self._carry_out(give_up(driver, batch_id))
                    raise
                yield
                self.committed_batches = max(self.committed_batches, batch_id + 1)
        except SinkError as error:
            self.errors.append(error)

    def _carry_out(self, flow: Generator[Action, Any, Any]) -> Generator[None, None, Any]:
        answer: object = None
        fenced_with = -1
        while True:
            try:
                action = flow.send(answer)
            except StopIteration as end:
                return end.value
            yield
            if isinstance(action, actions.Fence):
                self.cluster.decider_epoch += 1
                fenced_with = self.cluster.decider_epoch
                answer = None
            else:
                answer = self._answer(action, fenced_with)
            if answer is WriteOutcome.FENCED:
                for _ in range(self.dice.randrange(FENCED_STEPS_MAX)):  # who backs off meets fewer
                    yield

    def _answer(self, action: Action, fenced_with: int) -> object:
        cluster = self.cluster
        match action:
            case actions.ReadLast():
                return cluster.last
            case actions.Write(record):
                return self._write(record, fenced_with)
            case actions.Commit(transaction):
                return cluster.commit(transaction)
            case actions.Look(name) if name == decider_id(SINK):
                return Seen.NONE if cluster.record is None else Seen.COMMITTED
            case actions.Look(name):
                return cluster.ids[name].state
            case actions.FindEnding(transaction):
                return cluster.markers.get(transaction, Ending.OPEN)
            case actions.Holder(name):
                return cluster.holder(name)
            case actions.AbortOf(held_by):
                cluster.abort_of(held_by)
                return None
            case actions.Reclaim(name):
                found = cluster.take_over(name)
                return found if isinstance(found, Reclaimed) else None
            case actions.ListOpen(prefix):
                return tuple(name for name in cluster.open_ids() if name.startswith(prefix))
            case actions.Abort(name):
                cluster.abort(name)
                return None
            case _:
                raise AssertionError(action)

    def _write(self, record: SinkRecord | None, fenced_with: int) -> WriteOutcome:
        if self.losses > 0 and self.dice.random() < 0.3:
            self.losses -= 1
            if self.dice.random() < 0.5:
                self.cluster.decide(record, fenced_with)
            return WriteOutcome.UNKNOWN
        return self.cluster.decide(record, fenced_with)

    def _run_tasks(
        self, driver: Driver, batch_id: int, planned: SinkRecord | None
    ) -> Generator[None, None, Sequence[Prepared]]:
        """Each partition by attempts until one succeeds; a second one may run beside it."""
        job = Job(driver=driver, batch_id=batch_id, planned=planned)
        for partition in range(PARTITIONS):
            self._try(job, partition)
            if self.dice.random() < 0.3:
                self._try(job, partition)  # speculation
        while len(job.done) < PARTITIONS:
            yield
            if job.error is not None:
                raise job.error
            for partition in range(PARTITIONS):
                running = any(self._is_of(name, job, partition) for name in self.tasks)
                if partition not in job.done and not running:
                    self._try(job, partition)
        written = (job.done[partition] for partition in range(PARTITIONS))
        return [one for one in written if one is not None]

    def _try(self, job: Job, partition: int) -> None:
        if self.dice.random() < 0.2:
            job.tried[partition] = 0  # the stage is tried again, perhaps beside its last attempt
        self.tried += 1
        task = TaskNumbers(partition=partition, attempt=job.tried[partition], unique=self.tried)
        attempt = first_attempt(
            SINK,
            job.driver.claim.run_id,
            job.batch_id,
            task,
            two_phase=job.driver.two_phase,
        )
        job.tried[partition] += 1
        name = f"{attempt.transactional_id}#{job.batch_id}"
        while name in self.tasks:  # one of an earlier batch under the same name still runs
            name += "'"
        self.tasks[name] = self._work(attempt, job)

    def _is_of(self, name: str, job: Job, partition: int) -> bool:
        begin = f"{SINK}.{job.driver.claim.run_id}.{partition}."
        return name.startswith(begin) and name.rstrip("'").endswith(f"#{job.batch_id}")

    def _work(self, attempt: Attempt, job: Job) -> Steps:
        """A task's attempt: it ends its transaction only when nobody can have decided it."""
        yield
        mine = job.driver.claim
        if must_claim(mine, job.planned):
            try:
                yield from self._claim(job, patience=0 if attempt.partition == 0 else PATIENCE)
            except SinkError as error:
                job.error = error
                return
        if is_decided(mine, job.batch_id, job.planned):
            job.done.setdefault(attempt.partition, None)
            return
        found = self.cluster.take_over(attempt.transactional_id)
        while isinstance(found, Reclaimed):
            yield
            attempt = next_attempt(attempt)
            found = self.cluster.take_over(attempt.transactional_id)
        if self._fails():
            return
        for part in range(PARTS):
            yield
            row = (job.batch_id, attempt.partition, part)
            if not self.cluster.write(found, row) or self._fails():
                return
            if self._fails():
                self.cluster.withdraw(found)
                return
        if (yield from self._carry_out(is_late(job.driver, job.batch_id))):
            self.cluster.withdraw(found)
            job.done.setdefault(attempt.partition, None)
            return
        yield
        job.done.setdefault(attempt.partition, found)

    def _claim(self, job: Job, *, patience: int) -> Steps:
        """The task of partition 0 claims; who has waited for it in vain claims too."""
        for _ in range(patience):
            if (yield from self._carry_out(may_write(job.driver, job.planned))):
                return
        yield from self._carry_out(claim(job.driver, job.batch_id, job.planned))

    def _fails(self) -> bool:
        if self.failing > 0 and self.dice.random() < 0.2:
            self.failing -= 1
            return True
        return False


def _run_of(transactional_id: str) -> str | None:
    attempt = attempt_of(transactional_id)
    return None if attempt is None else attempt.run_id
