"""ApiVersions: what this broker serves, taken from the table of handlers, so that it cannot lie."""

import re

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode, RequestError
from penstock.raft.wire_form.voters import KRAFT_VERSION, KRAFT_VERSION_FEATURE
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
CLIENT_SOFTWARE_FROM_VERSION = 3  # KIP-511
LEVEL_0_FROM_VERSION = 4


def handle(
    services: NodeServices, request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    if context.header.api_version >= CLIENT_SOFTWARE_FROM_VERSION:
        for said in (request.client_software_name, request.client_software_version):
            if CLIENT_SOFTWARE.fullmatch(said) is None:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"{said!r} is no client software name or version"
                )
        if services.telemetry is not None:
            services.telemetry.note_software(
                (context.peer.host, context.peer.port),
                name=request.client_software_name,
                version=request.client_software_version,
            )
    features = services.image.features
    supported = [
        SupportedFeatureKey(name=name, min_version=level, max_version=level)
        for name, level in features.items()
    ]
    supported.append(
        SupportedFeatureKey(name=KRAFT_VERSION_FEATURE, min_version=0, max_version=KRAFT_VERSION)
    )
    if context.header.api_version < LEVEL_0_FROM_VERSION:
        # Java clients from 3.3 to 3.7 fail on a feature that begins at level 0 (KAFKA-17492).
        supported = [feature for feature in supported if feature.min_version > 0]
    quorum = services.quorum
    kraft = KRAFT_VERSION if quorum.voters.keys and not quorum.voters.is_fixed else 0
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=versions.min, max_version=versions.max)
            for key, versions in services.served.items()
        ],
        supported_features=supported,
        finalized_features_epoch=services.image.offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in ({**features, KRAFT_VERSION_FEATURE: kraft}).items()
            if level > 0
        ],
    )


def refuse(
    request: ApiVersionsRequest, code: ErrorCode, message: str | None
) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=code)


def unsupported_version(served: VersionRange) -> ApiVersionsResponse:
    """The reply to a version from the future. It goes out in the form of version 0, which every
    client falls back to reading, and names the range to choose from (KIP-511).
    """
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=served.min, max_version=served.max)
        ],
    )


API = Api(
    key=ApiKey.API_VERSIONS,
    versions=VersionRange(0, 4),
    request=ApiVersionsRequest,
    handle=handle,
    refuse=refuse,
)
