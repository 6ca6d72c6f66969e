"""`penstock security`: certificates for trying TLS out.

    DIR/ca.pem, ca.key          a private authority
    DIR/node-1.pem              key and certificate of a node; node-1.properties uses them
    DIR/client.pem, .key, .crt  key and certificate of a client, in one file and apart
    DIR/client.properties       for clients in Java, and --command-config
    DIR/librdkafka.json         for confluent-kafka and other clients on librdkafka
    DIR/spark.json              options of readers and writers of Spark

Whoever has ca.key can make certificates that are trusted: it belongs to the one who runs the
cluster, and not on its nodes.
"""

import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.options import json_option
from penstock.cli.show import print_json, say
from penstock.doctor.finding import quoted
from penstock.model.error import PenstockError
from penstock.model.limit import LAID_OUT_NODES_MAX
from penstock.world.certificates import Authority, Issued
from penstock.world.tcp import TcpNetwork

ONLY_OWNER = 0o600
FIRST_PORT = 9092
COMMON_NAME_BYTES_MAX = 64  # of a certificate, in UTF-8
LOCAL = ("localhost", "127.0.0.1")


class SecurityError(PenstockError):
    """Files that would be overwritten, or names that can't be used."""


@click.group(cls=CommandGroup)
def security() -> None:
    """Make certificates for trying TLS out."""


@security.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=LAID_OUT_NODES_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Make certificates for so many nodes.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A host or address under which nodes are reached; repeatable.  [default: this machine]",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    default=("client",),
    show_default=True,
    metavar="NAME",
    help="The user of a client, which is known as User:CN=NAME; repeatable.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1, max=3650),
    default=365,
    show_default=True,
    metavar="N",
    help="How long certificates are valid.",
)
@click.option(
    "--nodes-only",
    is_flag=True,
    help="The authority and certificates of nodes alone: no clients, no settings.",
)
@json_option
def init(
    directory: Path,
    nodes: int,
    hosts: tuple[str, ...],
    clients: tuple[str, ...],
    days: int,
    nodes_only: bool,
    as_json: bool,
) -> None:
    """Make a private authority, certificates of nodes and clients, and settings that use them."""
    folder = directory.resolve()
    if folder.exists() and any(folder.iterdir()):
        raise SecurityError(f"{directory} is not empty: name a new directory")
    check_clients(clients, nodes=nodes)
    known = hosts or (*LOCAL, TcpNetwork().host_name())
    check_hosts(known)
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority("Penstock private authority", now=now, days=days)
    write(folder / "ca.pem", authority.certificate)
    write(folder / "ca.key", authority.key, secret=True)
    for number in range(1, nodes + 1):
        name = f"node-{number}"
        write_key(folder, name, authority.issue_node(name, hosts=known))
        if not nodes_only:
            write_properties(
                folder / f"{name}.properties", node_settings(folder, number, host=known[0])
            )
    if not nodes_only:
        write_clients(folder, authority, clients)
    if as_json:
        print_json({"directory": str(folder), "files": sorted(os.listdir(folder))})
        return
    say(f"Certificates for {nodes} node(s) at {', '.join(known)}, valid for {days} days.")
    if not nodes_only:
        show_uses(directory, host=known[0])
    say(f"Keep {directory / 'ca.key'} to yourself: it makes certificates that are trusted.")


def check_clients(clients: Sequence[str], *, nodes: int) -> None:
    """Each name is the user's and that of files."""
    taken = {"ca", *(f"node-{number}" for number in range(1, nodes + 1))}
    for name in clients:
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            raise SecurityError(f"--client {name!r}: letters, digits, -, _ and . alone")
        if len(name.encode()) > COMMON_NAME_BYTES_MAX:
            raise SecurityError(f"--client {name}: at most {COMMON_NAME_BYTES_MAX} bytes in UTF-8")
        if name in taken:
            raise SecurityError(f"--client {name}: there are files of this name already")
        taken.add(name)


def check_hosts(hosts: Iterable[str]) -> None:
    """Certificates have names of hosts in ASCII (RFC 5280). Clients differ in how they encode
    others, and so in what they connect to and compare: the user says which name it is.
    """
    for host in hosts:
        if not host:
            raise SecurityError("--host '': name a host or an address")
        if not host.isascii():
            encoded = ascii_name(host)
            example = "" if encoded is None else f": {encoded}"
            raise SecurityError(
                f"--host {host}: certificates have names in ASCII; give the encoded name{example}"
            )


def ascii_name(host: str) -> str | None:
    """Of an international name; None where standards differ, as about the German sharp s."""
    try:
        encoded = host.encode("idna")
        return encoded.decode() if encoded.decode("idna") == host.lower() else None
    except UnicodeError:
        return None


def write_clients(folder: Path, authority: Authority, clients: tuple[str, ...]) -> None:
    """Certificates of clients, and settings for the first of them."""
    for name in clients:
        issued = authority.issue_client(name)
        write_key(folder, name, issued)
        write(folder / f"{name}.key", issued.key, secret=True)
        write(folder / f"{name}.crt", issued.certificate)
    java, rdkafka = java_settings(folder, clients[0]), librdkafka_settings(folder, clients[0])
    write_properties(folder / "client.properties", java)
    write(folder / "librdkafka.json", json.dumps(rdkafka, indent=2) + "\n")
    write(
        folder / "spark.json",
        json.dumps({f"kafka.{name}": value for name, value in java.items()}, indent=2) + "\n",
    )


def show_uses(directory: Path, *, host: str) -> None:
    config = directory / "client.properties"
    lists = f"penstock topics list --bootstrap {host}:{FIRST_PORT}"
    say(f"A node:      penstock serve --config {quoted(str(directory / 'node-1.properties'))}")
    say(f"A command:   {lists} --command-config {quoted(str(config))}")
    say(f"Java:        {config}")
    say(f"librdkafka:  {directory / 'librdkafka.json'}")
    say(f"Spark:       {directory / 'spark.json'}")


def node_settings(folder: Path, number: int, *, host: str) -> dict[str, str]:
    """A listener of TLS for clients that show a certificate."""
    return {
        "node.id": str(number),
        "listeners": f"SSL://{host}:{FIRST_PORT + number - 1}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / f"node-{number}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
    }


def java_settings(folder: Path, client: str) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / f"{client}.pem"),
    }


def librdkafka_settings(folder: Path, client: str) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / f"{client}.crt"),
        "ssl.key.location": str(folder / f"{client}.key"),
    }


def write_key(folder: Path, name: str, issued: Issued) -> None:
    write(folder / f"{name}.pem", issued.key + issued.certificate, secret=True)


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Backslashes begin escapes in such a file."""
    lines = (f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())
    write(path, "".join(lines))


def write(path: Path, text: str, *, secret: bool = False) -> None:
    mode = ONLY_OWNER if secret else 0o644
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
