"""Envelope: a broker forwards a client's request (KIP-590).

It is answered as if the client had sent it here, and the reply says how far the metadata of this
controller is, so that the broker can wait until it knows as much. The envelope's own errors are

    NOT_CONTROLLER           nothing was done. Also for a request that was sent to this controller
                             in an earlier epoch: it was on its way for so long that the client has
                             asked again
    NOT_LEADER_OR_FOLLOWER   this controller was deposed before its decision was committed, which
                             may be done or not
"""

import logging
from collections.abc import Awaitable
from ipaddress import ip_address

from penstock.broker.api import (
    add_raft_voter,
    alter_configs,
    alter_partition_reassignments,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_quorum,
    elect_leaders,
    expire_delegation_token,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    renew_delegation_token,
    unregister_broker,
    update_features,
)
from penstock.broker.request.api_table import AnyApi, Api, by_key
from penstock.broker.request.authorization.rule import answer_authorized
from penstock.broker.request.authorization.table import RULES
from penstock.broker.request.context import RequestContext
from penstock.broker.request.pending_reply import PendingReply
from penstock.broker.request.services import ControllerServices
from penstock.model.error import CloseConnection, ErrorCode, RequestError
from penstock.model.events import REQUEST_RECEIVED
from penstock.model.host_address import comparable_host
from penstock.security.principal import ANONYMOUS, Principal
from penstock.wire.api import ApiKey
from penstock.wire.codec import Buffer, decode
from penstock.wire.definition import Message
from penstock.wire.embedded import read_embedded
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import RequestHeader, decode_request_header, encode_response
from penstock.wire.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from penstock.world.event_log import tell
from penstock.world.ports import Address

logger = logging.getLogger(__name__)

FORWARDABLE = by_key(
    (
        create_topics.API,
        delete_topics.API,
        create_partitions.API,
        elect_leaders.API,
        alter_partition_reassignments.API,
        list_partition_reassignments.API,
        alter_configs.API,
        incremental_alter_configs.API,
        describe_quorum.API,
        unregister_broker.API,
        add_raft_voter.API,
        remove_raft_voter.API,
        update_features.API,
        alter_user_scram_credentials.API,
        create_acls.API,
        delete_acls.API,
        create_delegation_token.API,
        renew_delegation_token.API,
        expire_delegation_token.API,
    )
)
SIZE_BYTES = 4
ANY_EPOCH = -1  # of brokers that do not say
NO_PORT = 0


def handle(
    services: ControllerServices, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
    is_late = request.controller_epoch not in (ANY_EPOCH, services.local.quorum.replica.epoch)
    if is_late or not services.local.is_active:
        raise RequestError(ErrorCode.NOT_CONTROLLER)
    api, header, inner = _parse(bytes(request.request_data))
    inside = _of_client(services, request, context, header)
    if not request.from_node:
        tell(
            logger,
            REQUEST_RECEIVED,
            api=api.request.__name__.removesuffix("Request"),
            client_id=header.client_id,
            client_host=inside.peer.host,
            correlation_id=header.correlation_id,
        )
    try:
        if inside.access is None:
            response = api.handle(services, inner, inside)
        else:
            response = answer_authorized(api, RULES[api.key], services, inner, inside)
    except RequestError as refusal:
        response = api.refuse(inner, refusal.code, refusal.message)
    assert response is not None, "what is forwarded has a reply"
    assert not isinstance(response, PendingReply), "nothing that is forwarded waits for acks"
    if isinstance(response, Message):
        return _wrap(services, header, response)
    return _finish(services, api, header, inner, response)


def _of_client(
    services: ControllerServices,
    request: EnvelopeRequest,
    context: RequestContext,
    header: RequestHeader,
) -> RequestContext:
    """The client's own rights count here, and not those of the node that forwards for it. That one
    has been asked for its right to do so. What it asks for itself needs no other.
    """
    inside = RequestContext(
        header=header,
        listener=context.listener,
        peer=context.peer,
        received_ms=context.received_ms,
        is_forwarded=True,
    )
    if request.from_node:
        return inside
    inside.principal, host = _client(request)
    inside.peer = Address(host=host, port=NO_PORT)
    if services.authorizer is not None:
        inside.access = services.authorizer.access(
            inside.principal, host, services.image.acls_by_pattern
        )
    return inside


def _client(request: EnvelopeRequest) -> tuple[Principal, str]:
    principal = ANONYMOUS
    try:
        if request.request_principal is not None:
            named = read_embedded(DefaultPrincipalData, request.request_principal)
            principal = Principal(named.type, named.name, named.token_authenticated)
        host = str(ip_address(bytes(request.client_host_address)))
        return principal, comparable_host(host)
    except (MalformedMessage, ValueError) as error:
        raise CloseConnection(f"an envelope with a malformed client: {error}") from error


def refuse(request: EnvelopeRequest, code: ErrorCode, message: str | None) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)


def _parse(data: Buffer) -> tuple[AnyApi, RequestHeader, Message]:
    frame = memoryview(data)
    try:
        header, position = decode_request_header(frame)
        api = FORWARDABLE.get(header.api_key)
        if api is None:
            raise RequestError(ErrorCode.INVALID_REQUEST)
        if header.api_version not in api.versions:
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        message: Message = decode(api.request, header.api_version, frame, position)
    except MalformedMessage as error:
        raise CloseConnection(f"malformed request in an envelope: {error}") from error
    return api, header, message


async def _finish(
    services: ControllerServices,
    api: AnyApi,
    header: RequestHeader,
    request: Message,
    awaited: Awaitable[Message],
) -> EnvelopeResponse:
    try:
        response = await awaited
    except RequestError as refusal:
        if refusal.code == ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response = api.refuse(request, refusal.code, refusal.message)
    return _wrap(services, header, response)


def _wrap(
    services: ControllerServices, header: RequestHeader, response: Message
) -> EnvelopeResponse:
    parts = encode_response(header.correlation_id, response, header.api_version)
    whole = b"".join(part for part in parts if isinstance(part, bytes))
    return EnvelopeResponse(
        response_data=whole[SIZE_BYTES:], metadata_offset=services.local.image.offset
    )


API = Api(
    key=ApiKey.ENVELOPE,
    versions=EnvelopeRequest.VERSIONS,
    request=EnvelopeRequest,
    handle=handle,
    refuse=refuse,
)
