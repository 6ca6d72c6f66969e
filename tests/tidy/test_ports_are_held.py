"""A server that is started again finds its port free, whatever else runs on the machine."""

import errno
import socket
import sys

import pytest

from rig.held_port import HOST, HeldPort

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux only")


def listening(port: HeldPort) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port.number))
    server.listen()
    return server


def test_a_server_listens_on_a_held_port_each_time_it_starts() -> None:
    port = HeldPort()
    for _ in range(2):
        with listening(port) as server, socket.create_connection((HOST, port.number)) as client:
            served, _ = server.accept()
            served.close()
            assert client.recv(1) == b""


def test_nobody_else_is_given_a_held_port_while_its_server_is_down() -> None:
    port = HeldPort()
    listening(port).close()
    with socket.socket() as other, pytest.raises(OSError) as refused:
        other.bind((HOST, port.number))
    assert refused.value.errno == errno.EADDRINUSE
