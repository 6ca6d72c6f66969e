"""What brokers and controllers say of themselves when they register."""

import asyncio
import logging
from collections.abc import Sequence

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.local_controller import LocalController
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.records import FEATURE_LEVELS
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.controller_registration import ControllerRegistrationRequest
from penstock.wire.messages.registration_parts import RegisteredListener, SupportedFeature
from penstock.world.ports import Clock

logger = logging.getLogger(__name__)

NO_EPOCH = -1
ASK_WAIT_MS = 1_000
RETRY_WAIT_S = 0.05
RETRY_WAIT_S_MAX = 1.0
SAID_EVERY_MS = 5_000
NO_CONTROLLER = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT})


def registration_of(
    *,
    node_id: NodeId,
    cluster_id: str,
    incarnation: bytes,
    rack: str | None,
    endpoints: Sequence[Endpoint],
    directories: Sequence[bytes],
    previous_broker_epoch: int | None = None,
) -> BrokerRegistrationRequest:
    """What a process of this version says of itself; `incarnation` is new with each start, and the
    previous epoch is that in which the broker stopped cleanly, if it did.
    """
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=listeners_of(endpoints),
        features=supported_features(),
        rack=rack,
        log_dirs=list(directories),
        previous_broker_epoch=NO_EPOCH if previous_broker_epoch is None else previous_broker_epoch,
    )


def listeners_of(endpoints: Sequence[Endpoint]) -> list[RegisteredListener]:
    """Endpoints as brokers and controllers register them."""
    return [
        RegisteredListener(
            name=endpoint.listener,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints
    ]


def supported_features() -> list[SupportedFeature]:
    """The levels that this version supports, as brokers and controllers register them."""
    return [
        SupportedFeature(name=name, min_supported_version=level, max_supported_version=level)
        for name, level in FEATURE_LEVELS.items()
    ]


async def register_controller(
    controller: ControllerLink,
    local: LocalController,
    request: ControllerRegistrationRequest,
    *,
    names_voters: bool,
    clock: Clock,
) -> None:
    """Returns when the metadata says where this controller listens (KIP-919). Nothing waits for it,
    since the voters know each other already, so it is tried for as long as the node runs. Those
    that are waited for are named unless the broker of this process does that.
    """
    node_id = NodeId(request.controller_id)
    said_ms = clock.monotonic_ms()
    wait_s = RETRY_WAIT_S
    while True:
        known = local.image.controllers.get(node_id)
        if known is not None and known.incarnation == request.incarnation_id:
            return
        try:
            await controller.ask(request, wait_ms_max=ASK_WAIT_MS)
        except RequestError as refusal:
            now_ms = clock.monotonic_ms()
            reason = (
                None
                if not names_voters
                else "no controller is active; waiting for a majority of "
                + local.quorum.voters_text
            )
            if refusal.code not in NO_CONTROLLER:
                wait_s = min(2 * wait_s, RETRY_WAIT_S_MAX)
                reason = f"the active controller refuses it: {refusal}"
            if reason is not None and now_ms - said_ms >= SAID_EVERY_MS:
                said_ms = now_ms
                logger.warning("controller=%d registered=false %s", node_id, reason)
        await asyncio.sleep(wait_s)
