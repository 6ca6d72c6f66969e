"""What a scenario needs to know of the broker it runs on, be it Penstock or Apache Kafka."""

from pathlib import Path
from typing import Protocol


class Broker(Protocol):
    bootstrap: str
    data: Path  # holds the partition folders, in the layout that both share


class KillableBroker(Protocol):
    """One that is started again on its data, at the same address, after it was killed."""

    @property
    def running(self) -> bool: ...

    @property
    def bootstrap(self) -> str: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


# Every broker of the tests starts with these: records of the tests are years old, and a round of
# retention in the middle of a slow test would take them away.
NO_RETENTION_ROUND = {
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}
