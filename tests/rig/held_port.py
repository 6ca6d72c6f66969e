"""A free port of the loopback that nobody else is given while its holder exists.

The socket is bound and does not listen. On Linux a server that sets SO_REUSEADDR, as ours and
Java's do, can still listen there, each time it is started; other processes that ask for any free
port, or connect from one, get another.
"""

import socket
import sys
import weakref

HOST = "127.0.0.1"


class HeldPort:
    """Given back with this object."""

    def __init__(self) -> None:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((HOST, 0))
        self.number: int = held.getsockname()[1]
        self.address = f"{HOST}:{self.number}"
        weakref.finalize(self, held.close)
        if sys.platform != "linux":
            held.close()  # else no server could listen there; that the port stays free is likely
