"""How a broker's process joins the cluster: known first, leading in new epochs, then open."""

from penstock.broker.controller.controller_link import ControllerLink
from penstock.metadata.controller.brokers import (
    RegisterBroker,
    ResumeLeadership,
    UnfenceBroker,
)
from penstock.metadata.controller.state import Place
from penstock.model.identity import NodeId


async def join(controller: ControllerLink, registration: RegisterBroker) -> int:
    """Registers and takes up again what the broker led; returns the broker's epoch."""
    registered = await controller.ask(registration)
    after: Place | None = None
    while True:
        resumed = await controller.ask(
            ResumeLeadership(
                node_id=registration.node_id, broker_epoch=registered.broker_epoch, after=after
            )
        )
        if resumed.after is None:
            return registered.broker_epoch
        after = resumed.after


async def unfence(controller: ControllerLink, *, node_id: NodeId, broker_epoch: int) -> None:
    """From here on clients are told of this broker."""
    await controller.ask(UnfenceBroker(node_id=node_id, broker_epoch=broker_epoch))
