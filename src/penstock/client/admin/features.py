"""The features that a node reports now.

A connection learns them when it is opened, and does not hear of later changes.
"""

from penstock.client.network.cluster import Cluster
from penstock.client.network.connection import (
    SOFTWARE_NAME,
    SOFTWARE_VERSION,
    Features,
    features_of,
)
from penstock.client.network.errors import Refused, error_code
from penstock.model.error import ErrorCode
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


async def ask_features(cluster: Cluster) -> Features:
    channel = await cluster.any_channel()
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    reply = await channel.ask(request, ApiVersionsResponse, timeout_ms=cluster.rules.request_ms_max)
    code = error_code(reply.error_code)
    if code != ErrorCode.NONE:
        raise Refused(code, "features")
    return features_of(reply)
