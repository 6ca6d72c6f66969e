"""UpdateFeatures: the levels of features change, all that are asked for or none (KIP-584).

`kraft.version` belongs to the quorum itself: from 0 to 1, its leader writes the voters of the
settings to the log. The others are the controller's (`metadata/controller/features`).
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.broker.request.voter_requests import change_voters
from penstock.metadata.controller.features import check_update
from penstock.model.error import ErrorCode
from penstock.raft.wire_form.voters import KRAFT_VERSION, KRAFT_VERSION_FEATURE
from penstock.wire.api import ApiKey
from penstock.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> Awaitable[UpdateFeaturesResponse]:
    if services.quorum.replica.leads:
        return _update(services, request)
    wait_ms = request.timeout_ms
    return services.controller.forward(
        request, UpdateFeaturesResponse, wait_ms_max=wait_ms, requester=context.requester
    )


async def _update(services: NodeServices, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    quorum = services.quorum
    kraft = [one for one in request.feature_updates if one.feature == KRAFT_VERSION_FEATURE]
    upgrades = False
    for update in kraft:
        level = 0 if quorum.voters.is_fixed else KRAFT_VERSION
        check_update(update, level=level, ranges=[("the quorum", level, KRAFT_VERSION)])
        upgrades = update.max_version_level > level
    own = quorum.member.details
    if upgrades:  # before anything else is changed
        await change_voters(
            services,
            lambda replica, now_ms: replica.upgrade_voters(own, now_ms, try_only=True),
            wait_ms_max=request.timeout_ms,
        )
    others = [one for one in request.feature_updates if one.feature != KRAFT_VERSION_FEATURE]
    if others or not kraft:
        await services.controller.ask(
            UpdateFeaturesRequest(
                timeout_ms=request.timeout_ms,
                feature_updates=others,
                validate_only=request.validate_only,
            )
        )
    if upgrades and not request.validate_only:
        await change_voters(
            services,
            lambda replica, now_ms: replica.upgrade_voters(own, now_ms),
            wait_ms_max=request.timeout_ms,
        )
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=one.feature) for one in request.feature_updates]
    )


def refuse(
    request: UpdateFeaturesRequest, code: ErrorCode, message: str | None
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.UPDATE_FEATURES,
    versions=UpdateFeaturesRequest.VERSIONS,
    request=UpdateFeaturesRequest,
    handle=handle,
    refuse=refuse,
)
