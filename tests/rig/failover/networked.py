"""A cluster whose network can be cut: nodes in namespaces, or with relays between them where
namespaces cannot be made.

A program calls `enter_namespaces` before anything else, which starts it again inside of them.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.failover.cluster import ReplicatedCluster, Software
from rig.failover.namespaces import INSIDE, Namespaces, refusal
from rig.failover.relays import Relays

NODES = (1, 2, 3)
INSIDE_MARK = "PENSTOCK_INSIDE_NAMESPACES"


def enter_namespaces(command: Sequence[str]) -> str | None:
    """Replaces this process by the command, inside; returns inside, or with why it cannot."""
    if INSIDE_MARK in os.environ:
        return None
    reason = refusal()
    if reason is None:
        os.environ[INSIDE_MARK] = "1"
        os.execvp(INSIDE[0], [*INSIDE, *command])
    return reason


def open_network() -> Namespaces | Relays:
    """For one cluster after the other."""
    return Namespaces(NODES) if INSIDE_MARK in os.environ else Relays()


def cluster_on(
    network: Namespaces | Relays | None,
    software: Software,
    folder: Path,
    *,
    settings: Mapping[str, str],
) -> ReplicatedCluster:
    """Without a network the nodes are on the loopback."""
    if network is None:
        return ReplicatedCluster(software, folder, settings=settings)
    if isinstance(network, Namespaces):
        hosts, prefixes = network.hosts, network.prefixes
        return ReplicatedCluster(
            software, folder, settings=settings, hosts=hosts, prefixes=prefixes
        )
    cluster = ReplicatedCluster(software, folder, settings=settings, relay=network.in_front)
    network.nodes = cluster.nodes
    return cluster
