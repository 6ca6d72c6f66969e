"""Who is on the other end of one connection.

Authentication, by SASL or by a certificate, sets the principal. Dispatch asks for each request what
it may do.
"""

from collections.abc import Coroutine
from typing import Any, Protocol

from penstock.broker.request.pending_reply import Parts
from penstock.security.acl.authorizer import Access, Authorizer
from penstock.security.acl.rules import AclIndex
from penstock.security.principal import ANONYMOUS, Principal
from penstock.world.ports import Address


class EndingSession(Protocol):
    """A log-in that counts for some time only; see `reauthentication`."""

    def answer(
        self, frame: memoryview, received_ms: int
    ) -> Parts | Coroutine[Any, Any, Parts] | None:
        """The reply to a request of SASL; None for any other that may be answered. CloseConnection
        for one that comes when the session has ended.
        """


class ConnectionIdentity:
    """Made with its connection; changes when the client authenticates."""

    __slots__ = ("_access", "_access_peer", "_access_principal", "principal", "session")

    def __init__(
        self, *, principal: Principal = ANONYMOUS, session: EndingSession | None = None
    ) -> None:
        self.principal = principal
        self.session = session
        self._access: Access | None = None  # as it was asked for last, and for whom
        self._access_principal: Principal | None = None
        self._access_peer: Address | None = None

    def access(self, authorizer: Authorizer, peer: Address, index: AclIndex) -> Access:
        """What the client may do, by these entries. For most requests this compares identities and
        looks nothing up. An identity may stand for several peers: see `dispatch.UNKNOWN`.
        """
        access = self._access
        if (
            access is None
            or self._access_principal is not self.principal
            or self._access_peer is not peer
            or not authorizer.is_current(access, index)
        ):
            access = authorizer.access(self.principal, peer.host, index)
            self._access = access
            self._access_principal = self.principal
            self._access_peer = peer
        return access
