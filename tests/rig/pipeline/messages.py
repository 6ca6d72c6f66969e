"""The words between the test and a worker's process, and what all workers in Python do alike."""

import json
import sys
import threading
import time
from dataclasses import dataclass

from rig.pipeline.stream import Attempt

BATCH = 50  # records a transaction, at most
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
# The work of some attempts fails, as an application's may: they are aborted and done again.
ABORTED_EACH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    bootstrap: str
    group: str
    instance: str
    transactional_id: str
    session_ms: int
    life: str


def settings() -> WorkerSettings:
    given: dict[str, str] = json.loads(sys.argv[1])
    return WorkerSettings(
        bootstrap=given["bootstrap.servers"],
        group=given["group.id"],
        instance=given["group.instance.id"],
        transactional_id=given["transactional.id"],
        session_ms=int(given["session.timeout.ms"]),
        life=given["life"],
    )


def closing() -> threading.Event:
    """Set when the test has closed our input, or is gone."""
    ended = threading.Event()

    def listen() -> None:
        for _ in sys.stdin:
            pass
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    return ended


def is_to_fail(attempt: Attempt) -> bool:
    return attempt.number % ABORTED_EACH == 0


def tell_commit(attempt: Attempt) -> None:
    """Before the commit is asked for."""
    _tell(commits=attempt.number, at_ns=time.monotonic_ns())


def tell_abort(attempt: Attempt) -> None:
    _tell(aborts=attempt.number)


def tell_error(error: BaseException) -> None:
    _tell(error=repr(error))


def _tell(**what: object) -> None:
    print(json.dumps(what), flush=True)
