"""Who is on the other end of one connection.

Authentication, by SASL or by a certificate, sets the principal. Dispatch reads it for each request.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from penstock.broker.request.pending_reply import Parts
from penstock.model.lazy_dataclass import dataclass
from penstock.security.principal import ANONYMOUS, Principal


class EndingSession(Protocol):
    """A log-in that counts for some time only; see `reauthentication`."""

    def answer(
        self, frame: memoryview, received_ms: int
    ) -> Parts | Coroutine[Any, Any, Parts] | None:
        """The reply to a request of SASL; None for any other that may be answered. CloseConnection
        for one that comes when the session has ended.
        """


@dataclass(slots=True, kw_only=True)
class ConnectionIdentity:
    """Made with its connection; changes when the client authenticates."""

    principal: Principal = ANONYMOUS
    session: EndingSession | None = None
