"""The text in which people name brokers: `HOST:PORT[,HOST:PORT...]`."""

from penstock.model.error import PenstockError
from penstock.world.ports import Address

PORT_MAX = 65535


class BadAddress(PenstockError):
    """A text that names no broker."""


def parse_addresses(text: str) -> tuple[Address, ...]:
    """At least one address; BadAddress, with what would be right, otherwise."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise BadAddress("no broker is named: expected HOST:PORT[,HOST:PORT...]")
    return tuple(parse_address(part) for part in parts)


def parse_address(text: str) -> Address:
    """One address, with an IPv6 host in brackets: `[::1]:9092`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadAddress(f"{text!r} is no address: put an IPv6 host in brackets, [HOST]:PORT")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise BadAddress(f"{text!r} is no address: expected HOST:PORT")
    if int(port) > PORT_MAX:
        raise BadAddress(f"{text!r} is no address: a port is at most {PORT_MAX}")
    return Address(host=host, port=int(port))
