"""A node knows by which of its listeners other brokers come: clients cannot take their places."""

import contextlib
import socket
from pathlib import Path

from rig.running_node import RunningNode

WAIT_S = 30
SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "max.connections": "5",
}
API_VERSIONS = bytes.fromhex("0000000e 0012 0000 00000001 0004 74657374")


def test_a_node_accepts_a_broker_when_clients_have_taken_all_places(tmp_path: Path) -> None:
    node = RunningNode(tmp_path, SETTINGS)
    node.start()
    try:
        by_listener = node.node.addresses_by_listener

        def connected(listener: str) -> socket.socket:
            address = by_listener[listener]
            return socket.create_connection((address.host, address.port), WAIT_S)

        with contextlib.ExitStack() as silent:
            for _ in range(5):
                silent.enter_context(connected("CLIENTS"))
            with connected("CLIENTS") as refused:
                assert refused.recv(1) == b""
            with connected("BROKERS") as broker:
                broker.sendall(API_VERSIONS)
                assert len(broker.recv(4)) == 4
    finally:
        node.stop()
