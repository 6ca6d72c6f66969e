"""A cluster of N nodes on one machine: a directory and a complete `server.properties` for each.

    DIR/node-1/server.properties   node 1: broker and controller
        node-2/ ...                its log directory is the folder itself

The files are those that an operator would write: each node can be started alone from its own, and
on machines of their own they are the same but for addresses and paths. Voters are in the metadata
log (`kraft.version` 1), with the ids of their directories.

A layout is written where no node has a directory yet. Where all N have one it is used as it is;
anything between is refused.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.model.error import PenstockError
from penstock.model.identity import NodeId, random_id
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import LAID_OUT_NODES_MAX, LAID_OUT_VOTERS_MAX
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import cluster_node
from penstock.model.settings.listener import PORT_MAX, DirectoryVoter, HostPort
from penstock.node.config import node_directory
from penstock.node.formatting import FormatRequest, FormattedDirectory, plan_format, write_format
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)
from penstock.world.ports import Disk

SETTINGS_FILE = "server.properties"
REPLICAS_MAX = 3  # of a partition, unless somebody asks for more
FIRST_OF_REPLICAS = "default.replication.factor"
IN_SYNC_MIN = "min.insync.replicas"  # may be given: the metadata keeps it, whatever is edited later
REPLICAS_COMMENT = (
    "# How many nodes have a copy of each partition, and how many of them must have what is"
    " acknowledged with acks=all."
)
BROKERS = "PLAINTEXT"
CONTROLLERS = "CONTROLLER"
NODE_DIRECTORY = re.compile(r"node-(0|[1-9]\d*)")


class LayoutRefused(PenstockError):
    """Nodes that cannot be laid out, or are laid out otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOutNode:
    """One node of a layout."""

    node_id: NodeId
    directory: str
    settings: Mapping[str, str]  # all of its `server.properties`

    @property
    def name(self) -> str:
        return f"node-{self.node_id}"

    @property
    def settings_file(self) -> str:
        return f"{self.directory}/{SETTINGS_FILE}"


def voter_count(nodes: int) -> int:
    """How many of N nodes vote: an odd number, since one more would only add one that can fail.
    Five voters go on without two of them; more would make every change slower.
    """
    voters = min(nodes, LAID_OUT_VOTERS_MAX)
    return voters if voters % 2 else voters - 1


def port_count(nodes: int) -> int:
    """How many ports a layout takes: one for the clients of each node, and one for each voter."""
    return nodes + voter_count(nodes)


def ports_from(base: int, nodes: int, *, more: int = 0) -> tuple[int, ...]:
    """The ports from this one on: first those of clients, then those of controllers, then more."""
    count = port_count(nodes) + more
    if not 0 < base <= PORT_MAX - count + 1:
        raise LayoutRefused(
            f"{nodes} nodes take {count} ports, and there are not as many from {base} on"
        )
    return tuple(range(base, base + count))


def lay_out(
    nodes: int,
    *,
    data_directory: str,
    ports: Sequence[int],
    host: str = "127.0.0.1",
    settings: Mapping[str, str] | None = None,
) -> tuple[LaidOutNode, ...]:
    """The nodes of a new cluster, with these settings besides. `data_directory` is absolute, and
    the ports are as in `ports_from`.
    """
    if not 1 <= nodes <= LAID_OUT_NODES_MAX:
        raise LayoutRefused(f"{nodes} nodes: 1 to {LAID_OUT_NODES_MAX} can be laid out")
    if "," in data_directory:
        raise LayoutRefused(f"{data_directory}: a comma would end the name in log.dirs")
    if not data_directory.isprintable():
        raise LayoutRefused(f"{data_directory!r}: its name cannot be written into a file")
    assert len(ports) == port_count(nodes), ports
    assert data_directory.startswith("/"), data_directory
    controllers = [HostPort(host=host, port=port) for port in ports[nodes:]]
    made = tuple(
        _node(index, data_directory, HostPort(host=host, port=ports[index]), controllers, nodes)
        for index in range(nodes)
    )
    added = settings or {}
    taken = sorted(added.keys() & made[0].settings.keys() - {IN_SYNC_MIN})
    if taken:
        raise LayoutRefused(f"{taken[0]} is part of the layout: edit {SETTINGS_FILE} of each node")
    made = tuple(
        LaidOutNode(
            node_id=one.node_id, directory=one.directory, settings={**one.settings, **added}
        )
        for one in made
    )
    for one in made:
        cluster_node(parse_broker(one.settings), one.node_id)
    return made


def laid_out_files(disk: Disk, data_directory: str) -> dict[int, str]:
    """The settings files of nodes that are laid out in a directory, by the ids of the nodes."""
    names = disk.names(data_directory) if disk.is_directory(data_directory) else []
    numbers = sorted(
        int(form[1]) for name in names if (form := NODE_DIRECTORY.fullmatch(name)) is not None
    )
    files = {
        number: f"{node_directory(data_directory, NodeId(number))}/{SETTINGS_FILE}"
        for number in numbers
    }
    return {number: file for number, file in files.items() if disk.exists(file)}


def found_layout(disk: Disk, data_directory: str, nodes: int) -> tuple[str, ...] | None:
    """The settings files of the N nodes that are laid out; None if there is no node at all."""
    names = disk.names(data_directory) if disk.is_directory(data_directory) else []
    found = sorted(
        int(form[1]) for name in names if (form := NODE_DIRECTORY.fullmatch(name)) is not None
    )
    if not found:
        return None
    files = {
        number: f"{node_directory(data_directory, NodeId(number))}/{SETTINGS_FILE}"
        for number in found
    }
    for number, file in files.items():
        if not disk.exists(file):
            raise LayoutRefused(
                f"{data_directory}/node-{number} has no {SETTINGS_FILE}: it is that of a node"
                " without a cluster, or a layout was interrupted; use another directory"
            )
    wanted = list(range(1, nodes + 1))
    missing = [number for number in range(1, max(found)) if number not in found]
    if missing:
        raise LayoutRefused(
            f"{data_directory} holds node-{max(found)}, but node-{missing[0]} is missing:"
            " bring it back, or use another directory"
        )
    if found != wanted:
        raise LayoutRefused(
            f"{data_directory} holds {len(found)} node{'s' if len(found) > 1 else ''}, not {nodes}:"
            f" start {len(found)}, or use another directory"
        )
    return tuple(files.values())


def plan_layout(
    laid_out: Sequence[LaidOutNode],
    *,
    cluster_id: str,
    random_bytes: Callable[[int], bytes],
    now_ms: int,
    users: tuple[UserScramCredentialRecord, ...] = (),
) -> tuple[FormattedDirectory, ...]:
    """What is to be in the directory of each node, its settings file aside. The users can log in
    from the first start on.
    """
    members = [(one, cluster_node(parse_broker(one.settings), one.node_id)) for one in laid_out]
    voters = tuple(
        DirectoryVoter(
            node_id=one.node_id,
            host=address.host,
            port=address.port,
            directory_id=random_id(random_bytes),
        )
        for (one, _), address in zip(members, members[0][1].quorum.bootstrap_servers, strict=False)
    )
    return tuple(
        directory
        for one, member in members
        for directory in plan_format(
            FormatRequest(
                node=member,
                cluster_id=cluster_id,
                log_directories=(one.directory,),
                metadata_directory=one.directory,
                voters=voters,
                min_insync_replicas=one.settings.get("min.insync.replicas"),
                users=users,
            ),
            {one.directory: None},
            random_bytes=random_bytes,
            now_ms=now_ms,
        )
    )


def write_layout(
    disk: Disk, laid_out: Sequence[LaidOutNode], planned: Sequence[FormattedDirectory]
) -> None:
    """Directories first, then the files that say that they are complete."""
    for directory in planned:
        write_format(disk, directory)
    for one in laid_out:
        disk.write_whole(one.settings_file, settings_text(one, nodes=len(laid_out)).encode())


def settings_text(node: LaidOutNode, *, nodes: int) -> str:
    """The `server.properties` of a node, with how to start it alone. ASCII, as Java reads it."""
    lines = [
        f"# {node.name} of a cluster of {nodes}. It was written once, and can be edited: the node"
        " reads it at each start.",
        f"# To start this node alone: penstock serve --config {shlex.quote(node.settings_file)}",
        "",
    ]
    comments = [line.encode("ascii", "backslashreplace").decode() for line in lines]
    return "\n".join((*comments, *_setting_lines(node.settings), ""))


def _setting_lines(settings: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if name == FIRST_OF_REPLICAS:
            yield REPLICAS_COMMENT
        yield f"{name}={_escaped(value)}"


def _node(
    index: int,
    data_directory: str,
    clients: HostPort,
    controllers: Sequence[HostPort],
    nodes: int,
) -> LaidOutNode:
    node_id = NodeId(index + 1)
    directory = node_directory(data_directory, node_id)
    is_voter = index < len(controllers)
    listeners = f"{BROKERS}://{clients}"
    if is_voter:
        listeners += f",{CONTROLLERS}://{controllers[index]}"
    return LaidOutNode(
        node_id=node_id,
        directory=directory,
        settings={
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": ",".join(map(str, controllers)),
            "controller.listener.names": CONTROLLERS,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"{BROKERS}:PLAINTEXT,{CONTROLLERS}:PLAINTEXT",
            "inter.broker.listener.name": BROKERS,
            "log.dirs": directory,
            **_replicas(nodes),
        },
    )


def _replicas(nodes: int) -> dict[str, str]:
    """With three nodes each of them may be down, and nothing stops. What was acked with acks of all
    is on two of them then: Apache Kafka's default of 1 would ack what a leader alone has.
    """
    factor = str(min(REPLICAS_MAX, nodes))
    in_sync_min = "2" if nodes >= REPLICAS_MAX else "1"
    return {
        FIRST_OF_REPLICAS: factor,
        IN_SYNC_MIN: in_sync_min,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync_min,
    }


def _escaped(value: str) -> str:
    """A value as a file of Java properties holds it."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    text = text.replace("\t", "\\t").replace("\f", "\\f")
    if text.startswith(" "):
        text = "\\" + text
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
