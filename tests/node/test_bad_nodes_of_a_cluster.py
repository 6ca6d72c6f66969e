"""A node that does not fit into its cluster says so in one line, changes nothing on its disk, and
the nodes that run go on. Two of three voters run; each test starts a third one that is wrong.
"""

import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from rig.clients.confluent import QUIET
from rig.fixed_voters import OTHER_CLUSTER_ID, FixedVoters, start
from rig.served_cluster import NodeProcess

WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def voters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FixedVoters]:
    path = tmp_path_factory.mktemp("voters")
    with FixedVoters() as voters:
        start(voters.made(1, path), voters.made(2, path))
        yield voters


@pytest.fixture(autouse=True)
def others_go_on(voters: FixedVoters, tmp_path: Path) -> Iterator[None]:
    """After each test the two others are a cluster that can be changed."""
    yield
    admin = AdminClient({"bootstrap.servers": voters.address(1), "log_level": QUIET})
    [made] = admin.create_topics([NewTopic(tmp_path.name, 2)]).values()
    made.result(WAIT_SECONDS)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def refusal(node: NodeProcess) -> str:
    """What the node says in its only line that is no log, when it has ended."""
    node.begin()
    assert node.until_ended() == 1
    [line] = [line for line in node.logged().splitlines() if not line.startswith("time=")]
    assert line.startswith("penstock: ")
    return line.removeprefix("penstock: ")


def test_node_of_another_cluster(voters: FixedVoters, tmp_path: Path) -> None:
    node = voters.made(3, tmp_path, cluster_id=OTHER_CLUSTER_ID)
    said = refusal(node)
    assert f"1@{voters.controller(1)}, 2@{voters.controller(2)} belong to another cluster" in said
    assert f"which are of cluster {OTHER_CLUSTER_ID}" in said


@pytest.mark.parametrize("theirs", ["3@{3},4@127.0.0.1:1,5@127.0.0.1:2", "1@{1},2@{2},3@{3},4@a:1"])
def test_node_with_other_voters(voters: FixedVoters, tmp_path: Path, theirs: str) -> None:
    addresses = [voters.controller(number) for number in (1, 1, 2, 3)]
    node = voters.made(3, tmp_path, {"controller.quorum.voters": theirs.format(*addresses)})
    said = refusal(node)
    assert said.startswith("controller.quorum.voters names ")
    assert said.endswith("which leads the quorum: it must be the same on all nodes")
    log = tmp_path / "node-3" / "__cluster_metadata-0" / "00000000000000000000.log"
    assert log.read_bytes() == b"", "nothing of that leader is stored"


def test_id_that_is_taken(voters: FixedVoters, tmp_path: Path) -> None:
    broker = {
        "process.roles": "broker",
        "node.id": "4",
        "initial.broker.registration.timeout.ms": "1",
    }
    first = voters.made(3, tmp_path, {**broker, "listeners": "PLAINTEXT://127.0.0.1:0"})
    start(first)
    (tmp_path / "other").mkdir()
    other = voters.made(3, tmp_path / "other", {**broker, "listeners": "PLAINTEXT://127.0.0.1:0"})
    said = refusal(other)
    assert said.startswith("node.id=4 is taken: a broker with this id is alive in the cluster")
    assert first.running
    assert first.end() == 0


def test_torn_vote(voters: FixedVoters, tmp_path: Path) -> None:
    node = voters.made(3, tmp_path)
    start(node)
    assert node.end() == 0
    file = tmp_path / "node-3" / "__cluster_metadata-0" / "quorum-state"
    file.write_bytes(file.read_bytes()[:20])
    before = contents(tmp_path / "node-3")
    node.log.unlink()
    said = refusal(node)
    assert said.startswith(f"{file}: the file is torn or not JSON")
    assert contents(tmp_path / "node-3") == before


def test_directory_of_another_node(voters: FixedVoters, tmp_path: Path) -> None:
    voters.made(2, tmp_path)
    before = contents(tmp_path / "node-2")
    node = voters.made(3, tmp_path, {"log.dirs": str(tmp_path / "node-2")}, cluster_id=None)
    assert refusal(node) == f"{tmp_path}/node-2 belongs to node 2, not to 3"
    assert contents(tmp_path / "node-2") == before


def test_directory_of_another_cluster_beside_its_own(voters: FixedVoters, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    voters.made(3, tmp_path / "other", cluster_id=OTHER_CLUSTER_ID)
    voters.made(3, tmp_path)
    both = {"log.dirs": f"{tmp_path}/node-3,{tmp_path}/other/node-3"}
    node = voters.made(3, tmp_path, both, cluster_id=None)
    assert f"{tmp_path}/other/node-3 belongs to cluster {OTHER_CLUSTER_ID}" in refusal(node)


def test_listener_of_controllers_that_cannot_be_bound(voters: FixedVoters, tmp_path: Path) -> None:
    node = voters.made(3, tmp_path)
    before = contents(tmp_path / "node-3")
    host, port = voters.controller(3).split(":")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, int(port)))
        taken.listen()
        said = refusal(node)
    assert said == f"cannot listen on {voters.controller(3)}: Address already in use"
    assert contents(tmp_path / "node-3") == before


def test_voter_whose_metadata_directory_is_empty(voters: FixedVoters, tmp_path: Path) -> None:
    node = voters.made(3, tmp_path)
    shutil.rmtree(tmp_path / "node-3")
    (tmp_path / "node-3").mkdir()
    said = refusal(node)
    assert said.startswith(f"{tmp_path}/node-3 is not formatted, and node 3 is not the only voter")
    file = tmp_path / "node-3.properties"
    assert f"run `penstock storage format --cluster-id ID --config {file}`" in said
    assert "has forgotten it, and is not to be formatted as the same voter" in said
    assert contents(tmp_path / "node-3") == {}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_voter_whose_metadata_log_is_gone(
    voters: FixedVoters, tmp_path: Path, how: signal.Signals
) -> None:
    node = voters.made(3, tmp_path)
    start(node)
    node.end(how)
    shutil.rmtree(tmp_path / "node-3" / "__cluster_metadata-0")
    before = contents(tmp_path / "node-3")
    node.log.unlink()
    assert refusal(node) == (
        f"{tmp_path}/node-3/__cluster_metadata-0 is gone: this voter has acknowledged what it no"
        f" longer has. Replace {tmp_path}/node-3 as that of a lost disk (docs/cluster.md)"
    )
    assert contents(tmp_path / "node-3") == before


def test_voter_of_several_whose_settings_name_it_alone(voters: FixedVoters, tmp_path: Path) -> None:
    node = voters.made(3, tmp_path)
    start(node)
    assert node.end() == 0
    before = contents(tmp_path / "node-3")
    node.log.unlink()
    alone = {"controller.quorum.voters": f"3@{voters.controller(3)}"}
    assert refusal(voters.made(3, tmp_path, alone, cluster_id=None)) == (
        f"{tmp_path}/node-3 is that of one of the voters 1, 2, 3, and these settings would make"
        " node 3 the only one: name all of them in controller.quorum.voters, as on the other nodes"
    )
    assert contents(tmp_path / "node-3") == before


def test_majority_that_never_comes(tmp_path: Path) -> None:
    with FixedVoters() as lonely:
        node = lonely.made(1, tmp_path, {"initial.broker.registration.timeout.ms": "1"})
        said = refusal(node)
        assert said.startswith(
            f"no controller is active; waiting for a majority of {lonely.voters.replace(',', ', ')}"
        )


def test_node_that_waits_for_a_majority_can_be_stopped(tmp_path: Path) -> None:
    with FixedVoters() as lonely:
        node = lonely.made(1, tmp_path)
        node.begin()
        line = node.until_logged("registered=false")
        assert f"waiting for a majority of {lonely.voters.replace(',', ', ')}" in line
        assert node.end(signal.SIGTERM) == 0
        assert "stopped before it was ready" in node.logged().splitlines()[-1]
