"""The names under which a sink writes.

    <sink>-decider                                                      who writes decisions
    <sink>-probe                                                        who asks what is allowed
    <sink>.<run>.<partition>.<stage attempt>.<attempt>.<batch>          one attempt of one task

With two-phase commit the last part is the batch modulo 2, so that the number of ids stays bounded:
a batch begins only when the one before it is decided, and all it left open has been aborted.
An id that has a transaction open is left to it, and the next stage attempt is tried.

Without, an id must never be used again: taking it once more aborts what it has open, which may be
decided. Then the last part is the batch itself, and for the stage attempt, which Spark tells no
task, stands the number that no other task of the same Spark context has.
"""

from dataclasses import dataclass, replace

BATCHES_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a task to write its part of a batch."""

    sink: str
    run_id: str
    partition: int
    stage_attempt: int
    attempt: int
    batch: int

    @property
    def transactional_id(self) -> str:
        numbers = (self.partition, self.stage_attempt, self.attempt, self.batch)
        return ".".join((self.sink, self.run_id, *map(str, numbers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNumbers:
    """What Spark tells a task of itself. `attempt` begins anew with each attempt of the stage."""

    partition: int
    attempt: int
    unique: int  # in the Spark context


def first_attempt(
    sink: str, run_id: str, batch_id: int, task: TaskNumbers, *, two_phase: bool
) -> Attempt:
    """The name under which a task begins to write."""
    return Attempt(
        sink=sink,
        run_id=run_id,
        partition=task.partition,
        stage_attempt=0 if two_phase else task.unique,
        attempt=task.attempt,
        batch=batch_id % BATCHES_AT_ONCE if two_phase else batch_id,
    )


def next_attempt(attempt: Attempt) -> Attempt:
    """The name to go on with where one has a transaction open. With two-phase commit only."""
    return replace(attempt, stage_attempt=attempt.stage_attempt + 1)


def is_behind(attempt: Attempt, decided: int, *, two_phase: bool) -> bool:
    """Whether an attempt is of the batch that was decided last, or of one before it, and not of the
    one that comes next. Of a run that leaves no batch out.
    """
    if two_phase:
        return attempt.batch == decided % BATCHES_AT_ONCE
    return attempt.batch <= decided


def single_write_sink(run_id: str) -> str:
    """The sink of a write that is no query's and was given no name: it has this run alone."""
    return f"write-{run_id}"


def decider_id(sink: str) -> str:
    return f"{sink}-decider"


def probe_id(sink: str) -> str:
    return f"{sink}-probe"


def prefix_of(sink: str) -> str:
    """What the transactional ids of a sink begin with, and perhaps those of others."""
    return f"{sink}."


def attempt_of(transactional_id: str) -> Attempt | None:
    """Whose id it is; None: of no sink. The name of a sink may hold dots, that of a run none."""
    sink, *parts = transactional_id.rsplit(".", 5)
    if len(parts) != 5 or not sink or not all(part.isdecimal() for part in parts[1:]):
        return None
    partition, stage_attempt, attempt, batch = map(int, parts[1:])
    return Attempt(
        sink=sink,
        run_id=parts[0],
        partition=partition,
        stage_attempt=stage_attempt,
        attempt=attempt,
        batch=batch,
    )


def run_of(transactional_id: str) -> str | None:
    """Which run has written under an id; None: that of no sink."""
    attempt = attempt_of(transactional_id)
    return None if attempt is None else attempt.run_id
