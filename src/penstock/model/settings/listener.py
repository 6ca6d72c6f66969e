"""Where a node listens and who votes: listeners, their protocols, the quorum's voters."""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType

from penstock.model.identity import NodeId, id_bytes, id_text
from penstock.model.lazy_dataclass import dataclass
from penstock.model.settings.setting import HiddenValue, int32, items

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
WEB_ADDRESS = re.compile(
    r"https?://(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?:[/?][!-~]*)?"
)
PATH_BEGINS = re.compile(r"[/?#]")
ANY_HOSTS = ("", "0.0.0.0", "::")


class SecurityProtocol(IntEnum):
    """Kafka's security protocols, by the numbers that broker registrations carry."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    def __str__(self) -> str:
        return self.name

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


# As in Kafka, a listener that is named like a protocol speaks it.
PROTOCOL_OF_ITS_NAME: Mapping[str, SecurityProtocol] = MappingProxyType(
    {protocol.name: protocol for protocol in SecurityProtocol}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """One entry of `listeners`; host "" is every interface, port 0 is any free one."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """An address as settings write it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One entry of `controller.quorum.voters`."""

    node_id: NodeId
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{bracketed(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryVoter:
    """A voter of `kraft.version` 1: its vote counts only with the id of its metadata directory."""

    node_id: NodeId
    host: str
    port: int
    directory_id: bytes  # 16 raw bytes

    def __str__(self) -> str:
        address = HostPort(host=self.host, port=self.port)
        return f"{self.node_id}@{address}:{id_text(self.directory_id)}"


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen_addresses(text: str) -> tuple[ListenAddress, ...]:
    """`NAME://host:port,...`; names differ."""
    found = tuple(_listen_address(item) for item in items(text))
    names = [address.listener for address in found]
    if len(set(names)) != len(names):
        raise ValueError("Each listener must have a different name")
    return found


def voters(text: str) -> tuple[Voter, ...]:
    """`id@host:port,...`; ids and addresses differ, and the addresses can be connected to."""
    found = tuple(_voter(item) for item in items(text))
    _check_voters(found)
    return found


def directory_voters(text: str) -> tuple[DirectoryVoter, ...]:
    """`id@host:port:directory-id,...`, as `kafka-storage format --initial-controllers` takes it;
    ids of nodes and directories and addresses differ. ValueError when the text is none of that.
    """
    found = tuple(_directory_voter(item) for item in items(text))
    if not found:
        raise ValueError("At least one voter is needed, as 1@host:9093:DIRECTORY-ID")
    _check_voters(found)
    if len({voter.directory_id for voter in found}) != len(found):
        raise ValueError("Each voter must have a different directory id")
    return found


def _check_voters(found: Sequence[Voter] | Sequence[DirectoryVoter]) -> None:
    if len({voter.node_id for voter in found}) != len(found):
        raise ValueError("Each voter must have a different id")
    by_address: dict[tuple[str, int], object] = {}
    for voter in found:
        if voter.host in ANY_HOSTS:
            raise ValueError(f"{voter} needs a host that the other nodes can reach")
        if voter.port == 0 and len(found) > 1:
            raise ValueError(f"{voter} needs a port that the other nodes know, not 0")
        other = by_address.setdefault((voter.host, voter.port), voter)
        if other is not voter:
            raise ValueError(f"{other} and {voter} must have different addresses")


def host_ports(text: str) -> tuple[HostPort, ...]:
    """`host:port,...`."""
    return tuple(_host_port(item) for item in items(text))


def local_address(text: str) -> HostPort:
    """`host:port`, or a port of this machine alone; 0 takes a free one."""
    form = re.fullmatch(r"(?:(\[[0-9a-fA-F:.%]+\]|[^:/@\s\[\]]+):)?([0-9]{1,6})", text)
    if form is None or int(form[2]) > PORT_MAX:
        raise ValueError(f"An address must look like 127.0.0.1:9404 or 9404, and {text!r} does not")
    return HostPort(host=(form[1] or LOOPBACK).strip("[]"), port=int(form[2]))


def web_address(text: str) -> str | None:
    """None for an empty text."""
    if not text:
        return None
    refuse_passwords(text)
    form = WEB_ADDRESS.fullmatch(text)
    if form is None or not 0 < int(form["port"] or 1) <= PORT_MAX:
        raise ValueError("It must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH")
    return text


def keys_address(text: str) -> str:
    """Of the keys of an issuer, on the web or in a file; whether it is one is not checked."""
    refuse_passwords(text)
    return text


def refuse_passwords(address: str) -> None:
    """HiddenValue for an address with a user or a password: they would not be sent, and addresses
    are shown in logs.
    """
    before, _, after = address.partition("://")
    if "@" in PATH_BEGINS.split(after or before, maxsplit=1)[0]:
        raise HiddenValue("It must have no user and no password: they would not be sent")


def protocol_map(text: str) -> Mapping[str, SecurityProtocol]:
    """`NAME:PROTOCOL,...`."""
    protocols: dict[str, SecurityProtocol] = {}
    for item in items(text):
        listener, _, protocol = item.partition(":")
        if not listener or protocol.upper() not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ValueError(f"Each entry must be listener:protocol, with a protocol of {known}")
        if listener.upper() in protocols:
            raise ValueError(f"Listener {listener.upper()} appears twice")
        protocols[listener.upper()] = SecurityProtocol[protocol.upper()]
    return MappingProxyType(protocols)


def node_number(text: str) -> NodeId:
    number = int32(0)(text)
    assert isinstance(number, int)
    return NodeId(number)


def listener_names(text: str) -> tuple[str, ...]:
    return tuple(name.upper() for name in items(text))


def _listen_address(text: str) -> ListenAddress:
    form = re.fullmatch(r"([A-Za-z0-9._-]+)://(\[[0-9a-fA-F:.%]*\]|[^:/\[\]]*):([0-9]{1,6})", text)
    if form is None or int(form[3]) > PORT_MAX:
        raise ValueError(
            f"Each listener must look like PLAINTEXT://host:9092, and {text!r} does not"
        )
    return ListenAddress(listener=form[1].upper(), host=form[2].strip("[]"), port=int(form[3]))


def _host_port(text: str) -> HostPort:
    form = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^:/@\[\]]+):([0-9]{1,6})", text)
    if form is None or not 0 < int(form[2]) <= PORT_MAX:
        raise ValueError(f"Each entry must look like host:9093, and {text!r} does not")
    return HostPort(host=form[1].strip("[]"), port=int(form[2]))


def _directory_voter(text: str) -> DirectoryVoter:
    address, _, directory = text.rpartition(":")
    try:
        voter = _voter(address)
        directory_id = id_bytes(directory)
    except ValueError:
        raise ValueError(
            f"Each voter must look like 1@host:9093:DIRECTORY-ID, and {text!r} does not"
        ) from None
    return DirectoryVoter(
        node_id=voter.node_id, host=voter.host, port=voter.port, directory_id=directory_id
    )


def _voter(text: str) -> Voter:
    form = re.fullmatch(r"([0-9]{1,9})@(\[[0-9a-fA-F:.%]+\]|[^:/@\[\]]+):([0-9]{1,6})", text)
    if form is None or int(form[3]) > PORT_MAX:
        raise ValueError(f"Each voter must look like 1@host:9093, and {text!r} does not")
    return Voter(node_id=NodeId(int(form[1])), host=form[2].strip("[]"), port=int(form[3]))
