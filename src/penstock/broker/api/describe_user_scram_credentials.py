"""DescribeUserScramCredentials: which users can log in by SCRAM (KIP-554). Neither salts nor keys
leave the node.
"""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.metadata.image.scram import ScramUser
from penstock.model.error import ErrorCode
from penstock.model.sasl import ScramMechanism
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


def handle(
    services: NodeServices, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """All users if none are named."""
    credentials = services.image.scram_credentials
    if not request.users:
        names = dict.fromkeys(user.name for user in credentials)
        return DescribeUserScramCredentialsResponse(
            results=[_described(services, name) for name in names]
        )
    asked: dict[str, int] = {}
    for user in request.users:
        asked[user.name] = asked.get(user.name, 0) + 1
    return DescribeUserScramCredentialsResponse(
        results=[
            _described(services, name)
            if times == 1
            else DescribedUser(
                user=name,
                error_code=ErrorCode.DUPLICATE_RESOURCE,
                error_message="The user is named more than once in the request",
            )
            for name, times in asked.items()
        ]
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[
            DescribedUser(user=user.name, error_code=code, error_message=message)
            for user in request.users or ()
        ],
    )


def _described(services: NodeServices, name: str) -> DescribedUser:
    infos = []
    for mechanism in ScramMechanism:
        credential = services.image.scram_credentials.get(ScramUser(name, mechanism))
        if credential is not None:
            infos.append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    if not infos:
        return DescribedUser(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message="The user has no SCRAM credentials",
        )
    return DescribedUser(user=name, credential_infos=infos)


API = Api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=DescribeUserScramCredentialsRequest.VERSIONS,
    request=DescribeUserScramCredentialsRequest,
    handle=handle,
    refuse=refuse,
)
