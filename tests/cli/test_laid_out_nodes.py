"""Nodes of one directory are laid out once, and started by their own files from then on."""

import socket
from pathlib import Path

import pytest

from penstock.cli.laid_out_nodes import laid_out_nodes
from penstock.cli.node_processes import NodeCommand
from penstock.node.cluster_layout import LayoutRefused
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from penstock.world.properties import read_properties


def nodes_in(data: Path, nodes: int, *, port: int | None = 0, **settings: str) -> list[NodeCommand]:
    return laid_out_nodes(
        nodes,
        data_directory=str(data),
        port=port,
        settings={name.replace("_", "."): value for name, value in settings.items()},
        log_level="warning",
        disk=RealDisk(),
        entropy=RealEntropy(),
        clock=RealClock(),
    )


def test_nodes_are_laid_out_once_and_found_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = nodes_in(data, 3, num_partitions="4")
    assert [one.name for one in first] == ["node-1", "node-2", "node-3"]
    assert first[1].start_again == f"penstock serve --config {data}/node-2/server.properties"
    file = f"{data}/node-2/server.properties"
    logs = ("--log-level", "warning", "--log-format", "text")
    assert first[1].arguments[-6:] == ("--config", file, *logs)
    assert read_properties(data / "node-2" / "server.properties")["num.partitions"] == "4"
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert nodes_in(data, 3, port=None) == first
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("given", [{"port": 9092}, {"port": None, "num_partitions": "4"}])
def test_ports_and_settings_of_nodes_that_exist_are_in_their_files(
    tmp_path: Path, given: dict[str, object]
) -> None:
    nodes_in(tmp_path, 1)
    with pytest.raises(LayoutRefused, match=r"edit .*/node-<id>/server\.properties"):
        nodes_in(tmp_path, 1, **given)  # type: ignore[arg-type] # either of them


def test_a_port_that_is_taken_is_told_before_anything_is_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LayoutRefused, match=f"port {port} of 127.0.0.1 cannot be had"):
            nodes_in(data, 1, port=port)
    assert not data.exists()


def test_another_number_of_nodes_is_refused(tmp_path: Path) -> None:
    nodes_in(tmp_path, 3)
    with pytest.raises(LayoutRefused, match="holds 3 nodes, not 5"):
        nodes_in(tmp_path, 5)
