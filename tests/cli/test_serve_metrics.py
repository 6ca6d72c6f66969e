"""`penstock serve --metrics`: one node or several, and where they say that they are asked."""

from pathlib import Path

import pytest

from penstock.cli.laid_out_nodes import laid_out_nodes, metrics_addresses
from penstock.model.settings.setting import InvalidSetting
from penstock.node.cluster_layout import LayoutRefused
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from rig.scraping import METRICS, scrape
from rig.served_cluster import PENSTOCK, READY, NodeProcess


def test_each_of_several_nodes_has_the_next_port() -> None:
    assert list(map(str, metrics_addresses("9404", 3))) == [
        "127.0.0.1:9404",
        "127.0.0.1:9405",
        "127.0.0.1:9406",
    ]
    assert list(map(str, metrics_addresses("[::1]:1", 2))) == ["[::1]:1", "[::1]:2"]
    assert list(map(str, metrics_addresses("0", 2))) == ["127.0.0.1:0", "127.0.0.1:0"]
    assert metrics_addresses(None, 2) == [None, None]


def test_ports_that_do_not_exist_are_refused() -> None:
    with pytest.raises(LayoutRefused, match="there are not 3 ports"):
        metrics_addresses("65534", 3)
    with pytest.raises(InvalidSetting):
        metrics_addresses("here", 3)


def test_it_is_passed_on_to_nodes_that_are_laid_out_already(tmp_path: Path) -> None:
    world = {"disk": RealDisk(), "entropy": RealEntropy(), "clock": RealClock()}
    told: dict[str | None, list[str]] = {}
    for metrics, port in ((None, 0), ("9404", None)):
        commands = laid_out_nodes(
            2,
            data_directory=str(tmp_path / "data"),
            port=port,
            settings={},
            log_level="warning",
            metrics=metrics,
            **world,  # type: ignore[arg-type]  # three of different types
        )
        told[metrics] = [one.start_again.partition("server.properties")[2] for one in commands]
    assert told == {
        None: ["", ""],
        "9404": [" --metrics 127.0.0.1:9404", " --metrics 127.0.0.1:9405"],
    }


def test_three_nodes_say_where_each_is_asked(tmp_path: Path) -> None:
    command = [PENSTOCK, "serve", "--nodes", "3", "--port", "0", "--metrics", "0"]
    process = NodeProcess(
        "serve", [*command, "--data", str(tmp_path / "data")], tmp_path / "serve.log"
    )
    process.begin()
    try:
        process.until_logged(READY, at_start=True)
        urls = process.until_logged(METRICS, at_start=True).removeprefix(METRICS).split(",")
        told = [scrape(url) for url in urls]
        nodes = [labels["node_id"] for one in told for labels, _ in one.all("penstock_node_info")]
        assert nodes == ["1", "2", "3"]
    finally:
        assert process.end() == 0
