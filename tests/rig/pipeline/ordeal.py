"""The ordeal of the pipeline: its workers and its node are killed, and nothing comes of it.

A worker may also stall for longer than the group waits for it: it comes back in the middle of a
transaction, and what it was reading belongs to others.

Start at `endure`. The order of what happens is the seed's; what it hits is not. At the end:

1. The sink has every number of the source once, in order for each key.
2. A reader of what is committed that read all the time saw that and nothing else, in order, and
   nothing before its transaction began to be committed, nor of one that was not.
3. The group has committed the whole of the source.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from rig.broker import KillableBroker
from rig.clients.confluent import QUIET
from rig.pipeline.judgement import Judgement, judge
from rig.pipeline.source import Source
from rig.pipeline.stream import SOURCE, SOURCE_PARTITIONS
from rig.pipeline.witness import Witness, read_sink
from rig.pipeline.worker import Worker

GROUP = "pipeline"
# Workers that are killed mostly come back before their sessions end, those that stall do not.
SESSION_SECONDS = 2.0
STALL_SECONDS_MAX = 2 * SESSION_SECONDS
# What a node must be set to.
NODE_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
WITHOUT_PROGRESS_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.02
# Of the strikes, how many come right after another, when it has not been overcome yet.
HASTY_SHARE = 0.3
HASTE_SECONDS_MAX = 0.8
# Of the node's deaths, how many take a worker with them.
COMMON_SHARE = 0.3


class Victim(Enum):
    WORKER = "a worker is killed"
    NODE = "the node is killed"
    STALLED_WORKER = "a worker stalls until it is no member any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there is to do, who does it, and how often they are killed."""

    records: int
    worker_kills: int
    node_kills: int
    stalls: int = 0
    seed: int
    commands: Sequence[list[str]]  # one worker each


@dataclass(slots=True, kw_only=True)
class Progress:
    plan: Plan
    seen: int = 0
    worker_kills: int = 0
    node_kills: int = 0
    stalls: int = 0
    ended: int = 0  # lives that a worker ended by itself
    started: float = field(default_factory=time.monotonic)

    @property
    def line(self) -> str:
        plan = self.plan
        return (
            f"{time.monotonic() - self.started:6.1f} s  out {self.seen:,} of {plan.records:,}  "
            f"workers killed {self.worker_kills} of {plan.worker_kills}  "
            f"node killed {self.node_kills} of {plan.node_kills}  "
            f"stalled {self.stalls} of {plan.stalls}"
        )

    @property
    def left(self) -> list[Victim]:
        """The strikes that are still to be made."""
        plan = self.plan
        return [
            *[Victim.WORKER] * (plan.worker_kills - self.worker_kills),
            *[Victim.NODE] * (plan.node_kills - self.node_kills),
            *[Victim.STALLED_WORKER] * (plan.stalls - self.stalls),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    judgement: Judgement
    progress: Progress
    commits: int  # that were asked for
    aborts: int
    hidden: int  # records in the sink that belong to nothing committed
    uncommitted: int  # records of the source that the group has not committed
    errors: Sequence[str]
    seconds: float

    @property
    def faults(self) -> dict[str, int]:
        faults = dict(self.judgement.faults)
        if self.uncommitted:
            faults["not committed by the group"] = self.uncommitted
        return faults


def endure(
    node: KillableBroker,
    plan: Plan,
    *,
    folder: Path,
    told: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Takes a fresh node that runs, and leaves it running."""
    source = Source(node.bootstrap)
    given = {
        "bootstrap.servers": node.bootstrap,
        "group.id": GROUP,
        "session.timeout.ms": str(round(SESSION_SECONDS * 1000)),
    }
    workers = [
        Worker(command, given, name=f"worker{index}", log=folder / f"worker{index}.log")
        for index, command in enumerate(plan.commands)
    ]
    witness = Witness(node.bootstrap)
    ordeal = Ordeal(node, plan, source, workers, witness, told)
    try:
        ordeal.run()
        for worker in workers:
            worker.close()
        at_end = read_sink(node.bootstrap, committed=True)
        ordeal.await_that(lambda: len(witness.seen) >= len(at_end))
    finally:
        witness.close()
        for worker in workers:
            if worker.runs:
                worker.kill()
    everything = read_sink(node.bootstrap, committed=False)
    return Outcome(
        judgement=judge(
            witness.seen,
            records=plan.records,
            commits={attempt: at for worker in workers for attempt, at in worker.commits.items()},
            at_end=at_end,
        ),
        progress=ordeal.progress,
        commits=sum(len(worker.commits) for worker in workers),
        aborts=sum(worker.aborts for worker in workers),
        hidden=len(everything) - len(at_end),
        uncommitted=plan.records - committed_of_source(node.bootstrap),
        errors=[error for worker in workers for error in worker.errors],
        seconds=time.monotonic() - ordeal.progress.started,
    )


class Ordeal:
    """Strikes where the work has come to a random point, or right after the last strike."""

    def __init__(
        self,
        node: KillableBroker,
        plan: Plan,
        source: Source,
        workers: Sequence[Worker],
        witness: Witness,
        told: Callable[[Progress], None],
    ) -> None:
        self.progress = Progress(plan=plan)
        self._node = node
        self._plan = plan
        self._source = source
        self._workers = workers
        self._witness = witness
        self._told = told
        self._dice = random.Random(plan.seed)

    def run(self) -> None:
        """Until all the strikes were made and all the numbers were seen."""
        for worker in self._workers:
            worker.start()
        while left := self.progress.left:
            self._await_next(len(left))
            self._strike(self._dice.choice(left))
            self._tell()
        self._source.write(self._plan.records - self._source.written)
        self.await_that(lambda: self._witness.distinct >= self._plan.records)
        self._tell()

    def await_that(self, is_so: Callable[[], bool]) -> None:
        """As long as something is seen from time to time. Workers that ended are started again."""
        seen, deadline = -1, 0.0
        while not is_so():
            if (now_seen := len(self._witness.seen)) > seen:
                seen, deadline = now_seen, time.monotonic() + WITHOUT_PROGRESS_SECONDS_MAX
                self._tell()
            ends = [worker.ends for worker in self._workers]
            assert time.monotonic() < deadline, f"nothing has come out for long: {ends}"
            time.sleep(LOOK_SECONDS)
            for worker in self._workers:
                if not worker.runs:
                    self.progress.ended += 1
                    worker.start()

    def _await_next(self, left: int) -> None:
        """Each strike finds its share of the work undone, and comes at any point of it."""
        done = self._source.written
        share = (self._plan.records - done) // (left + 1)
        self._source.write(share)
        if self._dice.random() < HASTY_SHARE:
            time.sleep(self._dice.uniform(0, HASTE_SECONDS_MAX))
            return
        target = done + self._dice.randrange(share)
        self.await_that(lambda: self._witness.distinct >= target)
        time.sleep(self._dice.uniform(0, 2 * LOOK_SECONDS))

    def _strike(self, victim: Victim) -> None:
        match victim:
            case Victim.WORKER:
                self._kill_worker().start()
            case Victim.NODE:
                self._kill_node()
            case Victim.STALLED_WORKER:
                self._stall_worker()

    def _kill_node(self) -> None:
        self._node.kill()
        self.progress.node_kills += 1
        fallen = None
        if Victim.WORKER in self.progress.left and self._dice.random() < COMMON_SHARE:
            fallen = self._kill_worker()
        self._node.start()
        if fallen is not None:
            fallen.start()

    def _kill_worker(self) -> Worker:
        worker = self._dice.choice(self._workers)
        if worker.runs:
            worker.kill()
        self.progress.worker_kills += 1
        return worker

    def _stall_worker(self) -> None:
        worker = self._dice.choice(self._workers)
        if worker.runs:
            worker.stall()
            time.sleep(self._dice.uniform(SESSION_SECONDS, STALL_SECONDS_MAX))
            worker.resume()
        self.progress.stalls += 1

    def _tell(self) -> None:
        self.progress.seen = self._witness.distinct
        self._told(self.progress)


def committed_of_source(bootstrap: str) -> int:
    """How many records of the source the group is past."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": QUIET, "group.id": GROUP})
    asked = [TopicPartition(SOURCE, index) for index in range(SOURCE_PARTITIONS)]
    committed = consumer.committed(asked, timeout=WITHOUT_PROGRESS_SECONDS_MAX)
    consumer.close()
    return sum(max(0, one.offset) for one in committed)
