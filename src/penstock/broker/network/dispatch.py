"""From the bytes of a request to the bytes of its reply: look up, decode, handle, encode.

    unknown API key, malformed bytes    the connection is closed, as Apache Kafka does
    unknown version of ApiVersions      UNSUPPORTED_VERSION in the form of version 0 (KIP-511)
    unknown version of another API      the connection is closed: no reply has a form both know
    RequestError                        the API's own refusal
    CloseConnection                     passed on
    anything else                       a bug of ours: passed on, and the node stops

With an authorizer, each API is asked under its rule (`broker/request/authorization/table`), and its
shortcut is told what the client may do. Without one, that costs a look at an attribute.
"""

from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any

from penstock.broker.api.api_versions import unsupported_version
from penstock.broker.network.identity import ConnectionIdentity
from penstock.broker.request.api_table import AnyApi, by_key
from penstock.broker.request.authorization.rule import answer_authorized
from penstock.broker.request.authorization.table import RULES, RULES_OF_CONTROLLERS
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import Parts, PendingReply
from penstock.broker.request.request_stats import RequestStats
from penstock.broker.request.services import ControllerServices, NodeServices
from penstock.model.error import CloseConnection, RequestError
from penstock.security.acl.authorizer import Access
from penstock.wire.api import ApiKey
from penstock.wire.codec import decode
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import RequestHeader, decode_request_header, encode_response
from penstock.world.ports import Address

UNKNOWN = ConnectionIdentity()  # of a peer that nobody has asked who it is


class Dispatch:
    """Answers the requests of one listener."""

    def __init__(
        self,
        services: NodeServices,
        apis: Iterable[AnyApi],
        *,
        listener: str,
        has_sessions: bool = False,
    ) -> None:
        """`has_sessions`: whether clients log in, so that their sessions may end."""
        self.listener = listener
        self.stats = services.request_stats
        self._services = services
        self._apis = by_key(apis)
        self._authorizer = services.authorizer
        self._is_guarded = has_sessions or services.authorizer is not None
        of_controllers = isinstance(services, ControllerServices)
        # A dict of its own, since compiled code looks a key of another mapping up by a method call.
        self._rules = dict(RULES_OF_CONTROLLERS if of_controllers else RULES)
        # API key and version in one number: to ask an API itself costs ten times as much.
        self._served = {
            key << 16 | version
            for key, api in self._apis.items()
            for version in range(api.versions.max + 1)
            if is_served(api, version)
        }
        self._shortcuts = {
            key: api.shortcut for key, api in self._apis.items() if api.shortcut is not None
        }

    def answer(
        self,
        frame: memoryview,
        api_key: int,
        *,
        peer: Address,
        received_ms: int,
        identity: ConnectionIdentity = UNKNOWN,
    ) -> Parts | PendingReply | Coroutine[Any, Any, Parts] | None:
        """The reply, or what to wait for to have it, or None when none is owed.

        `api_key` is that of `api_key_of`. The frame may be overwritten when this returns.
        CloseConnection when the peer cannot be talked to.
        """
        access: Access | None = None
        if self._is_guarded:
            if identity.session is not None:
                of_session = identity.session.answer(frame, received_ms)
                if of_session is not None:
                    return of_session
            if self._authorizer is not None:
                access = identity.access(
                    self._authorizer, peer, self._services.image.acls_by_pattern
                )
        if (shortcut := self._shortcuts.get(api_key)) is not None:
            reply = shortcut(self._services, frame, self.listener, received_ms, access)
            if isinstance(reply, bytes):
                return [reply]
            if reply is not None:
                return reply
        try:
            header, position = decode_request_header(frame)
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request header: {error}") from error
        api = self._apis.get(header.api_key)
        if api is None or header.api_key << 16 | header.api_version not in self._served:
            return refuse_unserved(api, header, self.stats)
        try:
            # What follows the message is passed over, as in Apache Kafka: librdkafka 2 ends a
            # MetadataRequest for all topics with three bytes that nothing asks for.
            request = decode(api.request, header.api_version, frame, position)
        except MalformedMessage as error:
            raise CloseConnection(f"malformed request: {error}") from error
        context = RequestContext(
            header=header,
            listener=self.listener,
            peer=peer,
            received_ms=received_ms,
            principal=identity.principal,
            access=access,
        )
        try:
            if access is None:
                response = api.handle(self._services, request, context)
            else:
                rule = self._rules[api.key]
                response = answer_authorized(api, rule, self._services, request, context)
        except RequestError as refusal:
            response = api.refuse(request, refusal.code, refusal.message)
        if response is None or isinstance(response, PendingReply):
            return response
        stats = self.stats
        if isinstance(response, Message):
            if stats is not None:
                stats.note_errors(header.api_key, response)
            return encode_response(header.correlation_id, response, header.api_version)
        return finish(api, request, header, response, stats)


def api_key_of(frame: memoryview) -> int:
    """The second byte, since all keys are small: a shortcut looks at the rest. 255 is no API's."""
    return frame[1] if len(frame) > 1 else 255


def is_served(api: AnyApi, version: int) -> bool:
    """A version may be advertised that no message has: clients look at the range, not into it."""
    advertised, known = api.versions, api.request.VERSIONS
    return advertised.min <= version <= advertised.max and known.min <= version <= known.max


def refuse_unserved(api: AnyApi | None, header: RequestHeader, stats: RequestStats | None) -> Parts:
    """The one reply that every client reads whatever it asked; else CloseConnection."""
    if api is None:
        raise CloseConnection(f"API key {header.api_key} is not served")
    if api.key != ApiKey.API_VERSIONS:
        raise CloseConnection(
            f"version {header.api_version} of {api.key.name} is not served, only {api.versions}"
        )
    response = unsupported_version(api.versions)
    if stats is not None:
        stats.note_errors(header.api_key, response)
    return encode_response(header.correlation_id, response, 0)


async def finish(
    api: AnyApi,
    request: Message,
    header: RequestHeader,
    awaited: Awaitable[Message],
    stats: RequestStats | None,
) -> Parts:
    try:
        response = await awaited
    except RequestError as refusal:
        response = api.refuse(request, refusal.code, refusal.message)
    if stats is not None:
        stats.note_errors(header.api_key, response)
    return encode_response(header.correlation_id, response, header.api_version)
