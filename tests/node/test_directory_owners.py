"""Whose directories are, and which node may not use or format them."""

from collections.abc import Mapping

import pytest

from penstock.log.checkpoint import DirectoryIdentity
from penstock.model.identity import NodeId, id_text
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import ClusterNode, cluster_node
from penstock.node.directory_owners import (
    ForeignDirectory,
    NotFormatted,
    cluster_of,
    refuse_unformatted,
)

US = id_text(b"u" * 16)
THEM = id_text(b"t" * 16)
NODE = NodeId(1)
COMMON = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
}
STATIC = {**COMMON, "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}
DYNAMIC = {**COMMON, "controller.quorum.bootstrap.servers": "a:9093,b:9093"}
BROKER = {**STATIC, "node.id": "7", "process.roles": "broker", "listeners": "PLAINTEXT://d:9092"}


def owner(*, cluster: str = US, node: int = 1, directory: bytes = b"d" * 16) -> DirectoryIdentity:
    return DirectoryIdentity(cluster_id=cluster, node_id=NodeId(node), directory_id=directory)


def node(given: Mapping[str, str]) -> ClusterNode:
    settings = parse_broker(given)
    return cluster_node(settings, settings.node_id)


def is_refused(
    owners: Mapping[str, DirectoryIdentity | None], node: ClusterNode, *, metadata_directory: str
) -> bool:
    try:
        refuse_unformatted(owners, node=node, metadata_directory=metadata_directory)
    except NotFormatted:
        return True
    return False


def test_directories_of_one_node_tell_its_cluster() -> None:
    owners = {"/a": None, "/b": owner(), "/c": owner(directory=b"e" * 16)}
    assert cluster_of(owners, node_id=NODE) == US
    assert cluster_of({"/a": None}, node_id=NODE) is None
    assert cluster_of({"/a": None}, node_id=NODE, cluster_id=US) == US


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (owner(node=2, directory=b"e" * 16), "/b belongs to node 2, not to 1"),
        (owner(cluster=THEM, directory=b"e" * 16), f"cluster {THEM}, not to {US}, as /a does"),
        (owner(), "/b and /a have the same directory id"),
        (owner(directory=bytes(15) + b"\x02"), "/b has the reserved directory id"),
    ],
)
def test_a_directory_of_somebody_else_is_refused(other: DirectoryIdentity, expected: str) -> None:
    with pytest.raises(ForeignDirectory, match=expected):
        cluster_of({"/a": owner(), "/b": other}, node_id=NODE)


def test_a_directory_of_another_cluster_than_asked_for_is_refused() -> None:
    with pytest.raises(ForeignDirectory, match=f"not to {THEM}, as asked for"):
        cluster_of({"/a": owner()}, node_id=NODE, cluster_id=THEM)


@pytest.mark.parametrize("given", [{}, {**STATIC, "controller.quorum.voters": "1@a:9093"}])
def test_the_only_voter_of_a_cluster_may_format_itself(given: dict[str, str]) -> None:
    assert not is_refused({"/a": None}, node(given), metadata_directory="/a")


@pytest.mark.parametrize("given", [STATIC, DYNAMIC, BROKER])
def test_a_node_of_a_larger_cluster_needs_its_metadata_directory_alone(
    given: dict[str, str],
) -> None:
    owners = {"/a": owner(), "/b": None}
    assert not is_refused(owners, node(given), metadata_directory="/a")
    with pytest.raises(NotFormatted, match="/b is not formatted"):
        refuse_unformatted(owners, node=node(given), metadata_directory="/b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (STATIC, "--config x.properties`; if this node has voted before, it has forgotten it"),
        (DYNAMIC, "--config x.properties --no-initial-controllers`$"),
        (BROKER, "run `penstock storage format --cluster-id ID --config x.properties`$"),
    ],
)
def test_a_node_that_is_not_formatted_is_told_how(given: dict[str, str], said: str) -> None:
    with pytest.raises(NotFormatted, match=said):
        refuse_unformatted(
            {"/a": None}, node=node(given), metadata_directory="/a", config_file="x.properties"
        )
