"""`penstock storage format` and `info` of the nodes of a cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.model.identity import id_bytes
from rig.serve import ServedNode

Run = Callable[..., Any]
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
VOTERS = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg,2@127.0.0.1:9094:MvDxzVmcRsaTz33bUuRU6A"
BOTH = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}
STATIC = {**BOTH, "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
DYNAMIC = {**BOTH, "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
BROKER = {**STATIC, "process.roles": "broker", "node.id": "5", "listeners": "PLAINTEXT://:9092"}


@pytest.fixture
def config(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    def write(given: dict[str, str]) -> Path:
        file = tmp_path / "server.properties"
        settings = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}", **given}
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return file

    return write


Config = Callable[[dict[str, str]], Path]


def files_in(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_fixed_voters_are_formatted_and_warned(run: Run, config: Config, tmp_path: Path) -> None:
    done = run(f"storage format --cluster-id {CLUSTER} --config {config(STATIC)}")
    assert done.status == 0
    assert done.text.count("for node 1 of cluster") == 2
    assert "is a voter of a new cluster" in done.err
    assert "give this one a new node.id" in done.err
    assert files_in(tmp_path / "a") == {"meta.properties", "bootstrap.checkpoint"}
    assert files_in(tmp_path / "b") == {"meta.properties"}


def test_initial_controllers_are_written_with_their_directories(
    run: Run, config: Config, tmp_path: Path
) -> None:
    command = f"storage format --cluster-id {CLUSTER} --config {config(DYNAMIC)}"
    done = run(f"{command} --initial-controllers {VOTERS} --json").json()
    assert done["directory_id"] == "JEXY6aqzQY-32P5TStzaFg"
    assert [one["path"] for one in done["directories"]] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ]
    checkpoint = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert checkpoint in files_in(tmp_path / "a")


def test_a_node_may_begin_alone(run: Run, config: Config) -> None:
    done = run(f"storage format --cluster-id {CLUSTER} --config {config(DYNAMIC)} --standalone")
    assert (done.status, done.err) == (0, "")


def test_a_broker_needs_no_choice(run: Run, config: Config) -> None:
    done = run(f"storage format --cluster-id {CLUSTER} --config {config(BROKER)}")
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (STATIC, "", "--cluster-id is needed, the same for all nodes"),
        (STATIC, "--cluster-id short", "--cluster-id: 'short' is not an id"),
        (DYNAMIC, f"--cluster-id {CLUSTER}", "one of --standalone, --initial-controllers and"),
        (DYNAMIC, f"--cluster-id {CLUSTER} --standalone --no-initial-controllers", "only one of"),
        (STATIC, f"--cluster-id {CLUSTER} --standalone", "names fixed voters: remove it"),
        ({}, f"--cluster-id {CLUSTER} --standalone", "need the --config of a node with process"),
        (
            DYNAMIC,
            f"--cluster-id {CLUSTER} --initial-controllers 1@h:1",
            "must look like 1@host:9093:DIRECTORY-ID, and '1@h:1' does not",
        ),
        (
            DYNAMIC,
            f"--cluster-id {CLUSTER} --initial-controllers {VOTERS},3{VOTERS[1:].split(',')[0]}",
            "must have different addresses",
        ),
        (STATIC, f"--cluster-id {CLUSTER} --node-id 3", "the node's id is that of --config"),
        ({**STATIC, "node.id": "9"}, f"--cluster-id {CLUSTER}", "must be among the voters"),
    ],
)
def test_what_cannot_be_formatted_is_refused_in_one_line(
    run: Run, config: Config, tmp_path: Path, given: dict[str, str], options: str, said: str
) -> None:
    outcome = run(f"storage format --config {config(given)} {options}")
    assert outcome.status == 1
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_second_format_is_refused_and_the_rest_can_be_formatted(
    run: Run, config: Config, tmp_path: Path
) -> None:
    command = f"storage format --cluster-id {CLUSTER} --config {config(STATIC)}"
    assert run(command).status == 0
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    again = run(command)
    assert (again.status, "--ignore-formatted" in again.err) == (1, True)
    (tmp_path / "b" / "meta.properties").unlink()
    assert "formatted already:" in run(f"{command} --ignore-formatted").text
    assert (tmp_path / "b" / "meta.properties").exists()
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before


def test_a_node_of_a_cluster_is_not_served_as_a_cluster_of_its_own(
    run: Run, config: Config, tmp_path: Path
) -> None:
    command = f"storage format --cluster-id {CLUSTER} --config {config(DYNAMIC)}"
    assert run(f"{command} --initial-controllers {VOTERS}").status == 0
    before = files_in(tmp_path)
    outcome = run(f"serve --listen 127.0.0.1:0 --set log.dirs={tmp_path / 'a'}")
    assert outcome.status == 1
    assert "would make the node a cluster of its own" in outcome.err.splitlines()[-1]
    assert files_in(tmp_path) == before


def test_the_files_of_a_new_cluster_can_be_dumped(run: Run, config: Config, tmp_path: Path) -> None:
    command = f"storage format --cluster-id {CLUSTER} --config {config(DYNAMIC)}"
    assert run(f"{command} --initial-controllers {VOTERS}").status == 0
    voters = tmp_path / "a" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    rows = run(f"log dump --records {voters} --json").json()["rows"]
    assert [row["key"] for row in rows] == [
        "snapshot_header",
        "kraft_version",
        "kraft_voters",
        "snapshot_footer",
    ]
    bootstrap = run(f"log dump --records {tmp_path / 'a' / 'bootstrap.checkpoint'}").text
    assert "FeatureLevelRecord(name='metadata.version'" in bootstrap


def test_a_node_that_was_formatted_serves(run: Run, tmp_path: Path) -> None:
    assert run(f"storage format --data {tmp_path / 'data'} --cluster-id {CLUSTER}").status == 0
    node = ServedNode(data=tmp_path / "data")
    node.start()
    described = run("cluster describe --json", bootstrap=node.bootstrap).json()
    assert node.stop() == 0
    assert described["cluster_id"] == CLUSTER


def test_info_shows_the_directories_of_a_node(run: Run, config: Config, tmp_path: Path) -> None:
    file = config(BROKER)
    run(f"storage format --cluster-id {CLUSTER} --config {file}")
    described = run(f"storage info --config {file} --json").json()
    assert [one["path"] for one in described] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert {(one["cluster_id"], one["node_id"]) for one in described} == {(CLUSTER, 5)}


def test_info_tells_what_is_wrong_with_directories(
    run: Run, config: Config, tmp_path: Path
) -> None:
    file = config({**BROKER, "metadata.log.dir": str(tmp_path / "m")})
    run(f"storage format --cluster-id {CLUSTER} --config {file}")
    (tmp_path / "a" / "meta.properties").write_text("version=1\n")
    (tmp_path / "b" / "meta.properties").unlink()
    outcome = run(f"storage info --config {file}")
    assert outcome.status == 1
    assert f"{tmp_path / 'm'}: node 5 of {CLUSTER}" in outcome.text
    assert "cluster.id, node.id, directory.id missing: the file is torn" in outcome.err
    assert f"{tmp_path / 'b'} is not formatted" in outcome.err
    assert outcome.err.count("\n") == 1


def test_random_uuid_prints_an_id(run: Run) -> None:
    (line,) = run("storage random-uuid").lines
    assert len(id_bytes(line)) == 16
