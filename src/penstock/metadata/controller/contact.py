"""What a request that the controller accepted says about a broker's session."""

from collections.abc import Hashable

from penstock.metadata.controller.broker_sessions import BrokerSessions
from penstock.metadata.controller.decide import ControllerReply, ControllerRequest
from penstock.metadata.controller.fencing import BrokersFenced, FenceBrokers
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest


def note_contact(
    sessions: BrokerSessions,
    request: ControllerRequest,
    reply: ControllerReply,
    *,
    connection: Hashable,
    last_offset: int,
    has_records: bool,
    now_ms: int,
) -> None:
    """To be called in the same step as the decision: the next one has to know. `connection` is the
    one that the request came over, None when it came from this process; `last_offset` is that of
    the last record after the decision, `has_records` whether the decision has any.
    """
    match request, reply:
        case BrokerRegistrationRequest(), BrokerRegistrationResponse():
            sessions.heard_from(
                NodeId(request.broker_id),
                epoch=reply.broker_epoch,
                connection=connection,
                now_ms=now_ms,
            )
        case BrokerHeartbeatRequest(), BrokerHeartbeatResponse():
            if reply.should_shut_down:
                sessions.ended(NodeId(request.broker_id))
            else:
                sessions.heard_from(
                    NodeId(request.broker_id),
                    epoch=request.broker_epoch,
                    connection=connection,
                    now_ms=now_ms,
                    metadata_offset=request.current_metadata_offset,
                )
                if request.want_shut_down:
                    sessions.shuts_down(
                        NodeId(request.broker_id), last_offset=last_offset, has_stepped=has_records
                    )
        case FenceBrokers(), BrokersFenced():
            for one in reply.gone:
                sessions.fenced(one.node_id, epoch=one.broker_epoch, by=one.by)
        case UnregisterBrokerRequest(), _:
            sessions.ended(NodeId(request.broker_id))
        case _:
            pass
