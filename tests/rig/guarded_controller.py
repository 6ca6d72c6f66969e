"""A node with an authorizer, whose clients log in at the listener of controllers as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from rig.held_port import HeldPort
from rig.rights_matrix import Guarded
from rig.running_node import RunningNode
from rig.sasl import USERS, plain_users

OF_NODES = {**USERS, "node": "node-secret"}


def guarded_settings(*, clients: str, controllers: str) -> dict[str, str]:
    """Node 1 is broker and controller, at these addresses; it logs in as a super user."""
    jaas = plain_users(OF_NODES, own="node")
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controllers}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listeners": f"CLIENTS://{clients},CONTROLLER://{controllers}",
        "advertised.listeners": f"CLIENTS://{clients}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:node",
        "auto.create.topics.enable": "false",
    }


@contextmanager
def guarded_controller(data: Path) -> Iterator[Guarded]:
    clients, controllers = HeldPort(), HeldPort()
    node = RunningNode(
        data, guarded_settings(clients=clients.address, controllers=controllers.address)
    )
    node.start()
    try:
        guarded = Guarded(clients.address, controller=controllers.address)
        try:
            yield guarded
        finally:
            guarded.close()
    finally:
        node.stop()
