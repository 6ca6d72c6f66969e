"""The nodes of `penstock serve --nodes N --data DIR`: laid out at the first start, found again at
every later one, and how each is started.
"""

import os.path
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack

from penstock.cli.node_processes import NodeCommand
from penstock.cli.secured_nodes import make_certificates, refuse_other_security, write_admin
from penstock.model.identity import id_text, random_id
from penstock.model.settings.broker import BROKER_SETTINGS
from penstock.model.settings.listener import PORT_MAX, HostPort
from penstock.node.cluster_layout import (
    LayoutRefused,
    found_layout,
    lay_out,
    plan_layout,
    port_count,
    ports_from,
    write_layout,
)
from penstock.node.first_users import parse_user
from penstock.node.secured_layout import ADMIN, MECHANISM, secure_layout
from penstock.wire.messages.metadata_records.user_scram_credential import (
    UserScramCredentialRecord,
)
from penstock.world.ports import Clock, Disk, Entropy

HOST = "127.0.0.1"
PORT = 9092  # the first, unless another is asked for
PASSWORD_BYTES = 18
METRICS_SETTING = "penstock.metrics.address"
PENSTOCK = (sys.executable, "-m", "penstock.cli.main")


def laid_out_nodes(
    nodes: int,
    *,
    data_directory: str,
    port: int | None,
    settings: Mapping[str, str],
    log_level: str,
    metrics: str | None = None,
    log_format: str = "text",
    secured: str | None = None,
    disk: Disk,
    entropy: Entropy,
    clock: Clock,
) -> list[NodeCommand]:
    """The commands of N nodes in a directory, which are laid out if there is none. `port` is the
    first of those that they take, 0 for any that are free; settings go into each node's file.
    `metrics` is where the first one tells its metrics; it goes into no file.
    With `secured`, a directory for certificates, the new cluster is secured as in
    `node/secured_layout`. LayoutRefused when other nodes are there, or a port is taken.
    """
    data = os.path.abspath(data_directory)
    security = None if secured is None else os.path.abspath(secured)
    addresses = metrics_addresses(metrics, nodes)
    files = found_layout(disk, data, nodes)
    if files is not None:
        if port is not None or settings:
            raise LayoutRefused(
                f"the {nodes} nodes in {data} have ports and settings of their own:"
                f" edit {data}/node-<id>/server.properties"
            )
        if security is not None:
            refuse_other_security(files, security)
    else:
        wanted = PORT if port is None else port
        # Brokers of a secured cluster reach each other at ports of their own, the last ones.
        count = port_count(nodes)
        more = 0 if security is None else nodes
        ports = free_ports(count + more) if wanted == 0 else ports_from(wanted, nodes, more=more)
        refuse_taken(ports)
        made = lay_out(
            nodes, data_directory=data, ports=ports[:count], host=HOST, settings=settings
        )
        users: tuple[UserScramCredentialRecord, ...] = ()
        if security is not None:
            made = secure_layout(made, directory=security, ports=ports[count:], host=HOST)
            users = (_secured_files(security, nodes, entropy),)
        planned = plan_layout(
            made,
            cluster_id=id_text(random_id(entropy.random_bytes)),
            random_bytes=entropy.random_bytes,
            now_ms=clock.now_ms(),
            users=users,
        )
        write_layout(disk, made, planned)
        files = tuple(one.settings_file for one in made)
    added = [() if address is None else ("--metrics", str(address)) for address in addresses]
    logs = ("--log-level", log_level, "--log-format", log_format)
    return [
        NodeCommand(
            name=os.path.basename(os.path.dirname(file)),
            arguments=(*PENSTOCK, "serve", "--config", file, *logs, *more),
            start_again=shlex.join(("penstock", "serve", "--config", file, *more)),
        )
        for file, more in zip(files, added, strict=True)
    ]


def metrics_addresses(metrics: str | None, nodes: int) -> list[HostPort | None]:
    """Where each node tells its metrics: a port after the other, or any that is free."""
    if metrics is None:
        return [None] * nodes
    first = BROKER_SETTINGS[METRICS_SETTING].parse(metrics)
    assert isinstance(first, HostPort)
    if first.port + nodes - 1 > PORT_MAX:
        raise LayoutRefused(f"--metrics {metrics}: there are not {nodes} ports from that one on")
    return [
        HostPort(host=first.host, port=first.port + index if first.port else 0)
        for index in range(nodes)
    ]


def _secured_files(directory: str, nodes: int, entropy: Entropy) -> UserScramCredentialRecord:
    """Makes the certificates, and the first user with a password that is in its file alone."""
    make_certificates(directory, nodes=nodes, hosts=(HOST, "localhost"))
    password = entropy.random_bytes(PASSWORD_BYTES).hex()
    write_admin(directory, password=password)
    text = f"{MECHANISM}=[name={ADMIN},password={password}]"
    return parse_user(text, random_bytes=entropy.random_bytes)


def free_ports(count: int) -> tuple[int, ...]:
    """As many ports that nobody has; they are let go again."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return tuple(one.getsockname()[1] for one in sockets)


def refuse_taken(ports: tuple[int, ...]) -> None:
    """Before anything is written that names them."""
    with ExitStack() as held:
        for port in ports:
            try:
                held.enter_context(socket.create_server((HOST, port)))
            except OSError as error:
                raise LayoutRefused(
                    f"port {port} of {HOST} cannot be had ({error.strerror}); the nodes take"
                    f" {ports[0]} to {ports[-1]}: pass another --port, or 0 for any that are free"
                ) from error
