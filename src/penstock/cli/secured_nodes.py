"""Files of `penstock serve --nodes N --secured DIR`: certificates, and the first user's settings.

    DIR/ca.pem, ca.key       a private authority
        node-1.pem ...       key and certificate of each node
        admin.properties     for --command-config and Java clients, with the password: mode 0600

Certificates are made by a process of its own: a node does not load the library that makes them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.node.cluster_layout import LayoutRefused
from penstock.node.secured_layout import TRUSTED, admin_settings, authority_file
from penstock.world.properties import read_properties

ADMIN_FILE = "admin.properties"
ONLY_OWNER = 0o600
MAKE_SECONDS_MAX = 120


def admin_file(directory: str) -> str:
    return f"{os.path.abspath(directory)}/{ADMIN_FILE}"


def make_certificates(directory: str, *, nodes: int, hosts: tuple[str, ...]) -> None:
    """LayoutRefused with what `penstock security init` says."""
    command = [sys.executable, "-m", "penstock.cli.main", "security", "init", directory]
    command += ["--nodes", str(nodes), "--nodes-only"]
    for host in hosts:
        command += ["--host", host]
    made = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAKE_SECONDS_MAX
    )
    if made.returncode != 0:
        raise LayoutRefused(f"--secured: {made.stderr.strip().removeprefix('penstock: ')}")


def write_admin(directory: str, *, password: str) -> None:
    """Nobody but the owner of the process can read it, from the first byte on."""
    settings: Mapping[str, str] = admin_settings(directory, password=password)
    text = "".join(f"{name}={value}\n".replace("\\", "\\\\") for name, value in settings.items())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(f"{directory}/{ADMIN_FILE}", flags, ONLY_OWNER), "w") as file:
        file.write(text)


def refuse_other_security(files: tuple[str, ...], directory: str) -> None:
    """LayoutRefused unless these nodes were laid out with the certificates of this directory."""
    for file in files:
        if read_properties(Path(file)).get(TRUSTED) != authority_file(directory):
            raise LayoutRefused(
                f"{file} was not laid out with --secured {directory}: leave the option out, and"
                " see docs/security.md for securing a cluster that exists"
            )
