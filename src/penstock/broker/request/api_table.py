"""What an API is to the broker: its key, its versions, and the two functions that answer it.

Each file in `broker/api/` ends in one `API = Api(...)`. `broker/network/api_registry.py` lists them
all; dispatch looks requests up in that list and ApiVersions answers from it, so what is advertised
is what has a handler.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.security.acl.authorizer import Access
from penstock.wire.api import ApiKey, VersionRange

AnyServices = TypeVar("AnyServices", contravariant=True)  # what its handler needs of a node
Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[AnyServices, Request, Response]):
    """One API of the protocol.

    `handle` runs synchronously up to the point where it must wait, in the order requests came,
    and may return an awaitable for the rest, or a reply that is filled later; None means that no
    reply is owed. The memoryviews in
    a request are good only until `handle` returns. `refuse` builds the reply that tells one error
    for the whole request.
    """

    key: ApiKey
    versions: VersionRange
    request: type[Request]
    handle: Callable[
        [AnyServices, Request, RequestContext],
        Response | Awaitable[Response] | PendingReply | None,
    ]
    refuse: Callable[[Request, ErrorCode, str | None], Response]
    # Answers the commonest form of the request from its bytes, the listener that they came to, the
    # monotonic time and what the client may do; None, with nothing done, for others, and for what
    # the client may not do.
    shortcut: (
        Callable[
            [AnyServices, memoryview, str, int, Access | None],
            bytes | Parts | PendingReply | None,
        ]
        | None
    ) = None


# Requests and responses of many kinds meet in the table; each entry is typed where it is made.
AnyApi = Api[Any, Any, Any]


def by_key(apis: Iterable[AnyApi]) -> Mapping[int, AnyApi]:
    """The table to look requests up in; asserts that no key has two handlers."""
    table: dict[int, AnyApi] = {}
    for api in apis:
        assert api.key not in table, api.key
        table[int(api.key)] = api
    return table


def versions_served(apis: Iterable[AnyApi]) -> Mapping[ApiKey, VersionRange]:
    """What ApiVersions tells, in the order of the keys."""
    return {api.key: api.versions for api in sorted(apis, key=lambda api: api.key)}
