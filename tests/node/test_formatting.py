"""What formatting writes, and what it refuses."""

from collections.abc import Mapping

import pytest

from penstock.log.checkpoint import DirectoryIdentity
from penstock.model.identity import NodeId, id_text
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import ClusterNode, cluster_node
from penstock.model.settings.listener import directory_voters
from penstock.node.directory_owners import ForeignDirectory, owners_of
from penstock.node.formatting import (
    FormatRefused,
    FormatRequest,
    FormattedDirectory,
    plan_format,
    refuse_unmarked_log,
    standalone_voter,
    write_format,
)
from penstock.world.entropy import RealEntropy
from rig.memory_disk import Crashed, MemoryDisk

RANDOM = RealEntropy().random_bytes
CLUSTER = id_text(b"c" * 16)
NOW_MS = 1_700_000_000_000
DYNAMIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "a:9093,b:9093",
}
STATIC = {
    **DYNAMIC,
    "controller.quorum.bootstrap.servers": "",
    "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093",
}
VOTERS = directory_voters("1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A")
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def node(given: Mapping[str, str]) -> ClusterNode:
    settings = parse_broker(given)
    return cluster_node(settings, settings.node_id)


def request(given: Mapping[str, str], **fields: object) -> FormatRequest:
    return FormatRequest(
        node=node(given),
        cluster_id=CLUSTER,
        log_directories=("/a", "/b"),
        metadata_directory="/a",
        **fields,  # type: ignore[arg-type] # whatever a test gives
    )


def planned(
    wanted: FormatRequest, owners: Mapping[str, DirectoryIdentity | None] | None = None
) -> tuple[FormattedDirectory, ...]:
    found = dict.fromkeys(wanted.directories) if owners is None else owners
    return plan_format(wanted, found, random_bytes=RANDOM, now_ms=NOW_MS)


def owner(directory: bytes = b"d" * 16, *, cluster: str = CLUSTER) -> DirectoryIdentity:
    return DirectoryIdentity(cluster_id=cluster, node_id=NodeId(1), directory_id=directory)


def test_each_directory_gets_an_id_and_the_first_records_go_where_the_metadata_is() -> None:
    a, b = planned(request(STATIC))
    assert (a.path, b.path) == ("/a", "/b")
    assert a.identity.directory_id != b.identity.directory_id
    assert {a.identity.cluster_id, b.identity.cluster_id} == {CLUSTER}
    assert list(a.files) == ["bootstrap.checkpoint"]
    assert not b.files


def test_the_directory_of_the_metadata_may_be_apart() -> None:
    wanted = FormatRequest(
        node=node(STATIC), cluster_id=CLUSTER, log_directories=("/a",), metadata_directory="/m"
    )
    assert [(one.path, bool(one.files)) for one in planned(wanted)] == [("/m", True), ("/a", False)]


def test_a_voter_gets_the_directory_id_that_the_voters_know() -> None:
    a, b = planned(request(DYNAMIC, voters=VOTERS))
    assert a.identity.directory_id == VOTERS[0].directory_id
    assert b.identity.directory_id != VOTERS[0].directory_id
    assert list(a.files) == ["bootstrap.checkpoint", VOTERS_FILE]


def test_a_node_that_is_none_of_the_voters_knows_them_too() -> None:
    a, _ = planned(request({**DYNAMIC, "node.id": "9"}, voters=VOTERS))
    assert VOTERS_FILE in a.files
    assert a.identity.directory_id not in {voter.directory_id for voter in VOTERS}


def test_without_initial_controllers_no_voters_are_written() -> None:
    a, _ = planned(request(DYNAMIC))
    assert list(a.files) == ["bootstrap.checkpoint"]


def test_a_node_that_votes_alone_is_reached_at_its_listener_for_controllers() -> None:
    voter = standalone_voter(node(DYNAMIC), host_name="me", random_bytes=RANDOM)
    assert (voter.node_id, voter.host, voter.port) == (1, "me", 9093)
    told = {**DYNAMIC, "advertised.listeners": "PLAINTEXT://x:1,CONTROLLER://y:2"}
    voter = standalone_voter(node(told), host_name="me", random_bytes=RANDOM)
    assert (voter.host, voter.port) == ("y", 2)


def test_a_node_that_cannot_vote_alone_is_told_why() -> None:
    broker = {**DYNAMIC, "process.roles": "broker", "listeners": "PLAINTEXT://:9092"}
    with pytest.raises(FormatRefused, match="node 1 is no controller"):
        standalone_voter(node(broker), host_name="me", random_bytes=RANDOM)
    any_port = {**DYNAMIC, "listeners": "PLAINTEXT://:9092,CONTROLLER://:0"}
    with pytest.raises(FormatRefused, match="CONTROLLER needs a port"):
        standalone_voter(node(any_port), host_name="me", random_bytes=RANDOM)


def test_what_is_formatted_already_stays_as_it_is() -> None:
    owners = {"/a": owner(), "/b": None}
    with pytest.raises(FormatRefused, match="/a is formatted already"):
        planned(request(STATIC), owners)
    (b,) = planned(request(STATIC, ignore_formatted=True), owners)
    assert b.path == "/b"
    both = {"/a": owner(), "/b": owner(b"e" * 16)}
    assert planned(request(STATIC, ignore_formatted=True), both) == ()


def test_a_directory_of_another_cluster_is_refused() -> None:
    owners = {"/a": owner(cluster=id_text(b"x" * 16)), "/b": None}
    with pytest.raises(ForeignDirectory, match="as asked for"):
        planned(request(STATIC, ignore_formatted=True), owners)


@pytest.mark.parametrize(
    ("wanted", "instead"),
    [
        (request(STATIC, ignore_formatted=True), "give this one a new node.id"),
        (
            request(DYNAMIC, ignore_formatted=True, voters=VOTERS),
            "format it with --no-initial-controllers",
        ),
    ],
)
def test_a_voter_that_lost_its_metadata_is_not_made_a_voter_again(
    wanted: FormatRequest, instead: str
) -> None:
    lost = {"/a": None, "/b": owner()}
    with pytest.raises(FormatRefused, match=f"/b is formatted, so node 1 is not new.*{instead}"):
        planned(wanted, lost)


def test_a_node_that_does_not_vote_may_lose_its_metadata() -> None:
    lost = {"/a": None, "/b": owner()}
    (a,) = planned(request(DYNAMIC, ignore_formatted=True), lost)
    assert a.path == "/a"


def test_a_metadata_log_without_an_owner_is_not_formatted_over() -> None:
    disk = MemoryDisk()
    refuse_unmarked_log(disk, "/a")
    disk.make_directory("/a/__cluster_metadata-0")
    log = "/a/__cluster_metadata-0/00000000000000000000.log"
    disk.write_whole(log, b"")
    refuse_unmarked_log(disk, "/a")
    disk.write_whole(log, b"a batch")
    with pytest.raises(FormatRefused, match=r"holds a metadata log, but /a has no meta\.prop"):
        refuse_unmarked_log(disk, "/a")


def test_a_directory_is_formatted_once_everything_is_in_it() -> None:
    (a, _) = planned(request(DYNAMIC, voters=VOTERS))
    whole = MemoryDisk()
    write_format(whole, a)
    assert whole.read(f"/a/{VOTERS_FILE}") == a.files[VOTERS_FILE]
    for crash_at in range(whole.faults.calls):
        disk = MemoryDisk()
        disk.faults.crash_at = crash_at
        with pytest.raises(Crashed):
            write_format(disk, a)
        left = disk.after_kill()
        if owners_of(left, ["/a"])["/a"] is None:
            refuse_unmarked_log(left, "/a")
            write_format(left, a)
        for name, content in a.files.items():
            assert left.read(f"/a/{name}") == content
        assert owners_of(left, ["/a"])["/a"] == a.identity
