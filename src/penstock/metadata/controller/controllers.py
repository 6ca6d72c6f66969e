"""How controllers register: the cluster learns where each of them listens (KIP-919)."""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.registration_checks import check_registration
from penstock.metadata.image.changes import controller_of
from penstock.metadata.records import MetadataRecord
from penstock.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from penstock.wire.messages.metadata_records.controller import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


def register_controller(
    context: DecisionContext, request: ControllerRegistrationRequest
) -> Decision[MetadataRecord, ControllerRegistrationResponse]:
    """The latest registration of an id counts. One that says nothing new is not written again."""
    check_registration(request.controller_id, request.listeners)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    registering = controller_of(record)
    known = context.state.controllers.get(registering.node_id) == registering
    return Decision(
        records=() if known else (record,),
        reply=ControllerRegistrationResponse(error_message=None),
    )
