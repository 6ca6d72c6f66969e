"""What the registration of any node must say: it becomes a record that every node reads."""

from collections.abc import Sequence

from penstock.model.error import ErrorCode, RequestError
from penstock.model.settings.listener import SecurityProtocol
from penstock.wire.messages.registration_parts import RegisteredListener

NAME_SHOWN_MAX = 100  # characters of a name in a message
PROTOCOLS = frozenset(int(protocol) for protocol in SecurityProtocol)


def check_registration(node_id: int, listeners: Sequence[RegisteredListener]) -> None:
    """RequestError for an id or a listener that no node can have."""
    if node_id < 0:
        raise RequestError(
            ErrorCode.INVALID_REGISTRATION, f"Node id {node_id} is negative; ids begin at 0."
        )
    for listener in listeners:
        if listener.security_protocol not in PROTOCOLS:
            raise RequestError(
                ErrorCode.INVALID_REGISTRATION,
                f"Listener {listener.name[:NAME_SHOWN_MAX]} has the unknown security protocol "
                f"{listener.security_protocol}; known are {min(PROTOCOLS)} to {max(PROTOCOLS)}.",
            )
