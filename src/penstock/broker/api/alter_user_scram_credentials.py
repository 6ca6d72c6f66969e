"""AlterUserScramCredentials: the controller sets and removes passwords for SCRAM (KIP-554)."""

from collections.abc import Awaitable

from penstock.broker.controller.controller_link import check_entries
from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.alter_user_scram_credentials import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)


def handle(
    services: NodeServices, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> Awaitable[AlterUserScramCredentialsResponse]:
    check_entries(len(request.deletions) + len(request.upsertions))
    for upsertion in request.upsertions:
        # The request is read in place, and it waits.
        upsertion.salt = bytes(upsertion.salt)
        upsertion.salted_password = bytes(upsertion.salted_password)
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    deleted = [deletion.name for deletion in request.deletions]
    users = dict.fromkeys(deleted + [upsertion.name for upsertion in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlteredUser(user=user, error_code=code, error_message=message) for user in users]
    )


API = Api(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=AlterUserScramCredentialsRequest.VERSIONS,
    request=AlterUserScramCredentialsRequest,
    handle=handle,
    refuse=refuse,
)
