"""DescribeConfigs tells what a node was started with as given, and nothing else."""

from pathlib import Path

from penstock.model.configs import Source
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from rig.broker import NO_RETENTION_ROUND
from rig.dialogue import Dialogue
from rig.serve import ServedNode

BROKER = 4
Told = dict[str, tuple[str | None, Source]]


def described(bootstrap: str, node_id: str) -> Told:
    dialogue = Dialogue(bootstrap, "of-nobody")
    asked = DescribeConfigsResource(resource_type=BROKER, resource_name=node_id)
    [result] = dialogue.exchange(DescribeConfigsRequest(resources=[asked]), version=4).results
    dialogue.close()
    assert result.error_code == 0, result.error_message
    return {one.name: (one.value, Source(one.config_source)) for one in result.configs}


def given_of(told: Told) -> dict[str, str | None]:
    return {name: value for name, (value, source) in told.items() if source == Source.STATIC_BROKER}


def kept_in_metadata(told: Told) -> dict[str, str | None]:
    """What is a setting of the cluster from its first record on."""
    return {
        name: value
        for name, (value, source) in told.items()
        if source not in (Source.STATIC_BROKER, Source.DEFAULT)
    }


def test_a_node_tells_its_directory_listener_and_id_as_given(tmp_path: Path) -> None:
    node = ServedNode(data=tmp_path / "data")
    listener = f"PLAINTEXT://{node.bootstrap}"
    node.start()
    told = described(node.bootstrap, "1")
    assert node.stop() == 0
    assert kept_in_metadata(told) == {"min.insync.replicas": "1"}
    assert told["min.insync.replicas"][1] is Source.DYNAMIC_DEFAULT_BROKER
    assert given_of(told) == {
        **NO_RETENTION_ROUND,
        "broker.id": "1",
        "listeners": listener,
        "log.dirs": str(tmp_path / "data" / "node-1"),
        "node.id": "1",
    }


def test_what_a_file_and_options_give_is_told_as_given(tmp_path: Path) -> None:
    logs = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    settings = {
        "advertised.listeners": "PLAINTEXT://localhost:0",
        "log.dirs": logs,
        "log.retention.hours": "168",  # which is the default
        "node.id": "7",
    }
    node = ServedNode(data=tmp_path / "data", settings=settings)
    listener = f"PLAINTEXT://{node.bootstrap}"
    node.start()
    told = described(node.bootstrap, "7")
    assert node.stop() == 0
    assert given_of(told) == {
        **NO_RETENTION_ROUND,
        **settings,
        "broker.id": "7",
        "listeners": listener,
    }
    # It follows from the hours, and is not given itself.
    assert told["log.retention.ms"] == (None, Source.DEFAULT)
