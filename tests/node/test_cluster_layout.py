"""N nodes on one machine: the files of each, and when they are written or used again."""

import pytest

from penstock.model.identity import id_text
from penstock.model.settings.broker import parse_broker, without_effect
from penstock.model.settings.cluster_node import ClusterNode, Role, cluster_node
from penstock.model.settings.setting import InvalidSetting
from penstock.node.cluster_layout import (
    LaidOutNode,
    LayoutRefused,
    found_layout,
    lay_out,
    plan_layout,
    port_count,
    ports_from,
    settings_text,
    voter_count,
    write_layout,
)
from penstock.node.directory_owners import owners_of
from penstock.world.entropy import RealEntropy
from penstock.world.properties import parse_properties
from rig.memory_disk import MemoryDisk

RANDOM = RealEntropy().random_bytes
CLUSTER = id_text(b"c" * 16)
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def laid_out(nodes: int, **settings: str) -> tuple[LaidOutNode, ...]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    ports = ports_from(9092, nodes)
    return lay_out(nodes, data_directory="/data", ports=ports, settings=given)


def member(node: LaidOutNode) -> ClusterNode:
    return cluster_node(parse_broker(node.settings), node.node_id)


def written(nodes: int) -> MemoryDisk:
    disk = MemoryDisk()
    made = laid_out(nodes)
    planned = plan_layout(made, cluster_id=CLUSTER, random_bytes=RANDOM, now_ms=0)
    write_layout(disk, made, planned)
    return disk


@pytest.mark.parametrize(
    ("nodes", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (50, 5)]
)
def test_an_odd_number_of_nodes_votes(nodes: int, voters: int) -> None:
    assert voter_count(nodes) == voters
    made = laid_out(nodes)
    assert sum(member(node).is_controller for node in made) == voters
    assert all(member(node).is_broker for node in made)


def test_nodes_know_each_other_and_share_no_port() -> None:
    members = [member(node) for node in laid_out(4)]
    controllers = [str(server) for server in members[0].quorum.bootstrap_servers]
    assert controllers == ["127.0.0.1:9096", "127.0.0.1:9097", "127.0.0.1:9098"]
    assert all(
        [str(server) for server in one.quorum.bootstrap_servers] == controllers for one in members
    )
    ports = [listener.port for one in members for listener in one.listeners.values()]
    assert sorted(ports) == list(ports_from(9092, 4))
    assert [one.listeners_of(Role.CONTROLLER)[0].port for one in members[:3]] == [9096, 9097, 9098]
    assert members[3].roles == {Role.BROKER}


@pytest.mark.parametrize(
    ("nodes", "factor", "in_sync_min"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_each_partition_has_three_replicas_or_as_many_as_there_are_nodes(
    nodes: int, factor: int, in_sync_min: int
) -> None:
    for node in laid_out(nodes):
        settings = parse_broker(node.settings)
        assert settings.default_replication_factor == factor
        assert settings.groups.offsets_topic_replication_factor == factor
        assert settings.transactions.transaction_state_log_replication_factor == factor
        assert settings.transactions.transaction_state_log_min_isr == in_sync_min
        assert settings.min_insync_replicas == in_sync_min
        lines = settings_text(node, nodes=nodes).splitlines()
        comment = lines[lines.index(f"default.replication.factor={factor}") - 1]
        assert comment.startswith("# How many nodes have a copy of each partition")


def test_every_setting_of_a_layout_has_an_effect() -> None:
    for node in laid_out(4):
        settings = parse_broker(node.settings)
        assert settings.unknown == ()
        assert without_effect(settings) == ()


def test_settings_that_are_given_are_in_each_file() -> None:
    for node in laid_out(2, num_partitions="4"):
        assert parse_broker(node.settings).num_partitions == 4


def test_how_many_replicas_must_have_what_is_acked_can_be_given() -> None:
    for node in laid_out(3, min_insync_replicas="1"):
        assert parse_broker(node.settings).min_insync_replicas == 1


def test_a_setting_that_the_layout_decides_cannot_be_given() -> None:
    with pytest.raises(LayoutRefused, match=r"listeners is part of the layout"):
        laid_out(2, listeners="PLAINTEXT://:1")
    with pytest.raises(InvalidSetting, match=r"num\.partitions"):
        laid_out(2, num_partitions="many")


@pytest.mark.parametrize("nodes", [0, 51])
def test_the_number_of_nodes_has_bounds(nodes: int) -> None:
    with pytest.raises(LayoutRefused, match="1 to 50 can be laid out"):
        lay_out(nodes, data_directory="/data", ports=())


def test_ports_must_suffice() -> None:
    assert port_count(3) == 6
    assert ports_from(65_530, 3)[-1] == 65_535
    with pytest.raises(LayoutRefused, match="3 nodes take 6 ports"):
        ports_from(65_531, 3)


def test_a_directory_that_settings_cannot_name_is_refused() -> None:
    for name, said in (("/a,b", "a comma"), ("/a\nb", "cannot be written")):
        with pytest.raises(LayoutRefused, match=said):
            lay_out(1, data_directory=name, ports=ports_from(9092, 1))


@pytest.mark.parametrize("data", ["/data", "/with space", "/back\\slash", "/é€😀"])
def test_a_file_says_what_was_laid_out_and_how_to_start_the_node(data: str) -> None:
    (node,) = lay_out(1, data_directory=data, ports=ports_from(9092, 1))
    text = settings_text(node, nodes=1)
    assert text.isascii()
    assert parse_properties(text) == dict(node.settings)
    assert "To start this node alone: penstock serve --config " in text


def test_a_layout_is_written_where_there_is_none_and_found_again() -> None:
    assert found_layout(MemoryDisk(), "/data", 3) is None
    disk = written(3)
    files = found_layout(disk, "/data", 3)
    assert files == tuple(f"/data/node-{number}/server.properties" for number in (1, 2, 3))
    settings = parse_broker(parse_properties(disk.read(files[1]).decode()))
    assert settings.node_id == 2


def test_each_node_of_a_layout_is_formatted_with_the_same_voters() -> None:
    disk = written(4)
    paths = [f"/data/node-{number}" for number in (1, 2, 3, 4)]
    owners = owners_of(disk, paths)
    assert [owner and owner.node_id for owner in owners.values()] == [1, 2, 3, 4]
    assert {owner and owner.cluster_id for owner in owners.values()} == {CLUSTER}
    voters = {disk.read(f"{path}/{VOTERS_FILE}") for path in paths}
    assert len(voters) == 1
    (checkpoint,) = voters
    for path in paths[:3]:
        owner = owners[path]
        assert owner is not None and owner.directory_id in checkpoint
    assert owners[paths[3]] is not None


def test_a_layout_that_is_incomplete_or_another_is_refused() -> None:
    disk = written(3)
    with pytest.raises(LayoutRefused, match="holds 3 nodes, not 5: start 3"):
        found_layout(disk, "/data", 5)
    with pytest.raises(LayoutRefused, match="holds 3 nodes, not 1"):
        found_layout(disk, "/data", 1)
    disk.remove_tree("/data/node-2")
    with pytest.raises(LayoutRefused, match="holds node-3, but node-2 is missing"):
        found_layout(disk, "/data", 3)
    disk.remove_tree("/data/node-3")
    with pytest.raises(LayoutRefused, match="holds 1 node, not 3: start 1"):
        found_layout(disk, "/data", 3)


def test_the_directory_of_a_node_without_a_cluster_is_not_taken() -> None:
    disk = MemoryDisk()
    disk.make_directory("/data/node-1")
    disk.write_whole("/data/node-1/meta.properties", b"version=1\n")
    with pytest.raises(LayoutRefused, match=r"node-1 has no server\.properties"):
        found_layout(disk, "/data", 1)
