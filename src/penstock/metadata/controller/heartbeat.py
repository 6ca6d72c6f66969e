"""What a broker's heartbeat leads to: it is unfenced, fenced, or may shut down, or has lost a log
directory.

A broker is unfenced once it has applied its own registration. When one speaks that was silent,
reassignments are complete that have waited for it. One that wants to shut down goes in
three steps:

1. It is marked as shutting down.
2. When all others have been heard from since, it leaves the in-sync sets and hands over what others
   can lead. One that is silent may be dead for as long as a session lasts, and may have lost what
   it has not synced: nobody leaves an in-sync set to such a broker. It stays unfenced, and goes on
   to serve what it still leads.
3. When all others have applied that, it is fenced and may go: clients that ask anybody find the new
   leaders.

The only broker of a cluster, in the process of the controller,
has nobody to hand over to, and nobody decides anything while it is gone: it stays as it is and goes
on in its leader epochs after the restart (`brokers`). Elsewhere the only broker is fenced like any
other: another one may join while it is gone, and no partition must be given to a broker that does
not run.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.fencing import (
    handed_over,
    led_again,
    reassigned_by,
    without_broker,
    without_directories,
)
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.changes import FENCED, SHUTTING_DOWN, UNFENCED
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord


def registered_broker(state: ControllerState, node_id: int, *, epoch: int) -> BrokerImage:
    """The broker of a request that only its present process may make; RequestError otherwise."""
    broker = state.brokers.get(NodeId(node_id))
    if broker is None:
        raise RequestError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {node_id} is not registered."
        )
    if broker.epoch != epoch:
        raise RequestError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {node_id} is registered with epoch {broker.epoch}, not {epoch}.",
        )
    return broker


def heartbeat(
    context: DecisionContext, request: BrokerHeartbeatRequest
) -> Decision[MetadataRecord, BrokerHeartbeatResponse]:
    broker = registered_broker(context.state, request.broker_id, epoch=request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    shuts_down = request.want_shut_down or broker.in_controlled_shutdown
    if not (shuts_down and broker.fenced) and (failed := _newly_failed(broker, request)):
        change = _change(broker)
        change.log_dirs = [one for one in broker.directories if one not in failed]
        return Decision(
            records=(*without_directories(context, broker.node_id, failed), change),
            reply=BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=broker.fenced),
            framed=True,
        )
    records: tuple[MetadataRecord, ...] = ()
    is_fenced, may_go = broker.fenced, shuts_down
    if broker.fenced:
        if is_caught_up and not request.want_fence and not shuts_down:
            change = _change(broker, fenced=UNFENCED)
            records, is_fenced = (change, *led_again(context, broker.node_id)), False
    elif shuts_down and not request.want_fence and _stops_with_controller(context, broker):
        pass
    elif request.want_fence or shuts_down:
        step = None if request.want_fence else _step_down(context, broker, request)
        if step is not None:
            records, may_go = step, False
        else:
            change = _change(broker, fenced=FENCED, shuts_down=shuts_down)
            records, is_fenced = (*without_broker(context, broker.node_id), change), True
    elif context.sessions.is_silent(broker.node_id, context.now_ms):
        records = tuple(reassigned_by(context, broker.node_id))
    reply = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=may_go
    )
    return Decision(records=records, reply=reply, framed=True)


def _newly_failed(broker: BrokerImage, request: BrokerHeartbeatRequest) -> set[bytes]:
    """A broker without any directory stops by itself, and is fenced."""
    failed = set(request.offline_log_dirs).intersection(broker.directories)
    return failed if len(failed) < len(broker.directories) else set()


def _step_down(
    context: DecisionContext, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> tuple[MetadataRecord, ...] | None:
    """The next step of a broker that shuts down, without records while it waits for others; None
    when it may go.
    """
    state, node_id = context.state, broker.node_id
    if not broker.in_controlled_shutdown:
        if not any(node_id in state.partition(place).isr for place in state.replicated_by(node_id)):
            return None
        return (_change(broker, shuts_down=True),)
    others = [other_id for other_id, other in state.brokers.items() if not other.fenced]
    if not request.want_shut_down:
        return ()
    if not context.sessions.others_live(node_id, others, context.now_ms):
        return ()
    changes = tuple(handed_over(context, node_id))
    return None if not changes and context.sessions.others_know(node_id, others) else changes


def _stops_with_controller(context: DecisionContext, broker: BrokerImage) -> bool:
    return broker.node_id == context.node_id and len(context.state.brokers) == 1


def _change(
    broker: BrokerImage, *, fenced: int = 0, shuts_down: bool = False
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.node_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=SHUTTING_DOWN if shuts_down else 0,
    )
