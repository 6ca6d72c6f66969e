"""Where a request came from and when: what a handler is told besides the request itself."""

from penstock.broker.controller.controller_link import Requester
from penstock.model.lazy_dataclass import dataclass
from penstock.security.acl.authorizer import Access
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.header import RequestHeader
from penstock.world.ports import Address


@dataclass(slots=True, kw_only=True, init=False)
class RequestContext:
    """Built per request: see `log/reading` on its `__init__`."""

    header: RequestHeader
    listener: str
    peer: Address
    received_ms: int  # on the monotonic clock
    principal: Principal
    access: Access | None  # what the client may do; None: everything
    is_forwarded: bool  # by a broker, to this controller

    def __init__(
        self,
        *,
        header: RequestHeader,
        listener: str,
        peer: Address,
        received_ms: int,
        principal: Principal = ANONYMOUS,
        access: Access | None = None,
        is_forwarded: bool = False,
    ) -> None:
        self.header = header
        self.listener = listener
        self.peer = peer
        self.received_ms = received_ms
        self.principal = principal
        self.access = access
        self.is_forwarded = is_forwarded

    @property
    def requester(self) -> Requester:
        header = self.header
        return Requester(self.principal, self.peer.host, header.client_id, header.correlation_id)
