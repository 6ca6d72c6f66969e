"""What applications of a simulation share."""

from typing import Protocol

from penstock.sim.history import History
from penstock.sim.trace import Trace


class TransactionLab(Protocol):
    @property
    def history(self) -> History: ...

    @property
    def trace(self) -> Trace: ...

    @property
    def ending(self) -> bool:
        """Whether all have worked enough."""
