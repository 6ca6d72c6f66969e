"""`penstock serve --nodes N` and `serve --config` of one of them: real processes, one cluster."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from penstock.model.settings.broker import parse_broker
from rig.command import Outcome
from rig.served_cluster import PENSTOCK, READY, NodeProcess, ServedCluster

Run = Callable[..., Outcome]
WAIT_SECONDS = 60


@contextmanager
def served(data: Path, *options: str, log: Path | None = None) -> Iterator[NodeProcess]:
    """`penstock serve --nodes 3`; what was written to both outputs is in one file."""
    command = [PENSTOCK, "serve", "--nodes", "3", "--data", str(data), *options]
    process = NodeProcess("serve", command, log or data / "serve.log")
    process.begin()
    try:
        yield process
    finally:
        if process.running:
            process.end(signal.SIGINT)


def all_ready(process: NodeProcess, *, times: int = 1) -> str:
    """The addresses of the line that the command itself prints."""
    return process.until_logged(READY, times=times, at_start=True).removeprefix(READY)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_three_nodes_start_as_one_cluster_and_stop_together(
    run: Run, tmp_path: Path, how: signal.Signals
) -> None:
    data = tmp_path / "data"
    options = ("--port", "0", "--set", "num.partitions=3")
    with served(data, *options, log=tmp_path / "serve.log") as process:
        bootstrap = all_ready(process)
        assert len(bootstrap.split(",")) == 3
        assert run("topics create orders", bootstrap=bootstrap).status == 0
        described = run("cluster describe --json").json()
        assert [broker["id"] for broker in described["brokers"]] == [1, 2, 3]
        assert not any(broker["fenced"] for broker in described["brokers"])
        topic = run("topics describe orders --json").json()[0]
        assert sorted(one["leader"] for one in topic["partitions"]) == [1, 2, 3]
        assert all((data / f"node-{number}" / "node.pid").exists() for number in (1, 2, 3))
        assert process.end(how) == 0
    for number in (1, 2, 3):
        assert f"node-{number} " in process.logged()
        assert not (data / f"node-{number}" / "node.pid").exists()
        [info] = run(f"storage info --config {data}/node-{number}/server.properties --json").json()
        assert info["clean"]


def test_nodes_are_used_again_with_what_they_hold(run: Run, tmp_path: Path) -> None:
    with ServedCluster(tmp_path) as cluster:
        with served(tmp_path) as process:
            assert all_ready(process) == cluster.bootstrap
            run("topics create orders --partitions 3", bootstrap=cluster.bootstrap)
        with served(tmp_path) as process:
            assert all_ready(process, times=2) == cluster.bootstrap
            [topic] = run("topics list --json", bootstrap=cluster.bootstrap).json()
            assert topic["name"] == "orders"


def test_one_node_that_was_killed_is_started_alone(run: Run, tmp_path: Path) -> None:
    with ServedCluster(tmp_path) as cluster, served(tmp_path) as process:
        all_ready(process)
        run("topics create orders --partitions 3", bootstrap=cluster.bootstrap)
        pid = int((tmp_path / "node-2" / "node.pid").read_text())
        subprocess.run(["kill", "-9", str(pid)], check=True)
        told = process.until_logged("node-2 was killed by SIGKILL")
        assert told.endswith(f"penstock serve --config {tmp_path}/node-2/server.properties")
        cluster.start(2)
        lines = tmp_path / "lines"
        lines.write_text("".join(f"{number}\n" for number in range(30)))
        assert run(f"produce orders {lines}", bootstrap=cluster.addresses[2]).status == 0
        assert len(run("consume orders", bootstrap=cluster.addresses[3]).lines) == 30
        assert cluster.nodes[2].end() == 0
        assert process.end(signal.SIGTERM) == 1, "a node had died"


def test_nodes_started_one_by_one_are_a_cluster(tmp_path: Path) -> None:
    with ServedCluster(tmp_path) as cluster:
        cluster.nodes[1].begin()
        waits = cluster.nodes[1].until_logged("no controller is active; waiting for a majority of")
        assert all(f"{number}@{at}" in waits for number, at in enumerate(cluster.controllers, 1))
        cluster.nodes[3].begin()
        cluster.nodes[1].until_logged(READY)
        cluster.nodes[2].begin()  # a topic has three replicas
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.addresses[1]})
        producer.produce("orders", "one umbrella")
        assert producer.flush(WAIT_SECONDS) == 0


def test_files_are_complete(tmp_path: Path) -> None:
    cluster = ServedCluster(tmp_path)
    for node in cluster.laid_out:
        assert parse_broker(node.settings).unknown == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--nodes 3 --listen 127.0.0.1:9095", "pass --port 9095 with --nodes 3"),
        ("--nodes 3 --config {file}", "is the file of one node"),
        ("--nodes 0", "0"),
        ("--nodes 51", "51"),
        ("--nodes 3 --port 65535", "3 nodes take 6 ports"),
        ("--nodes 3 --set listeners=PLAINTEXT://:1", "listeners is part of the layout"),
        ("--nodes 3 --set num.partitions=many", "num.partitions"),
        ("--port 9095", "pass --listen 127.0.0.1:9095"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_in_one_line(
    run: Run, tmp_path: Path, options: str, said: str
) -> None:
    (tmp_path / "server.properties").write_text("node.id=1\n")
    outcome = run(f"serve {options.format(file=tmp_path / 'server.properties')} --data new")
    assert outcome.status != 0
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_directory_of_several_nodes_is_not_served_as_that_of_one(run: Run, tmp_path: Path) -> None:
    ServedCluster(tmp_path)
    outcome = run(f"serve --data {tmp_path} --listen 127.0.0.1:0")
    assert outcome.status == 1
    assert outcome.err == (
        f"penstock: {tmp_path} holds 3 nodes of a cluster: start all of them with --nodes 3, or"
        f" one with --config {tmp_path}/node-1/server.properties\n"
    )
