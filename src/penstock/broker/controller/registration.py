"""How a broker's process joins the cluster: registered and leading in new epochs, then open."""

from penstock.broker.controller.controller_link import ControllerLink
from penstock.metadata.controller.brokers import RegisterBroker, UnfenceBroker
from penstock.model.identity import NodeId


async def join(controller: ControllerLink, registration: RegisterBroker) -> int:
    """Registers, which takes up again what the broker led; returns the broker's epoch."""
    registered = await controller.ask(registration)
    return registered.broker_epoch


async def unfence(controller: ControllerLink, *, node_id: NodeId, broker_epoch: int) -> None:
    """From here on clients are told of this broker."""
    await controller.ask(UnfenceBroker(node_id=node_id, broker_epoch=broker_epoch))
