"""What a controller tells the quorum by itself: that it has moved, and that it wants to vote."""

import signal
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.admin.membership import remove_voter
from penstock.client.admin.quorum import describe_quorum
from penstock.model.identity import NodeId
from rig.client_cluster import run_with_cluster
from rig.cluster_questions import until
from rig.held_port import HeldPort
from rig.served_cluster import ServedCluster

WAIT_SECONDS = 60
NODE = 3


def controllers(bootstrap: str) -> dict[int, str]:
    """Where voters are, as the leader of the quorum knows."""
    quorum = run_with_cluster(bootstrap, describe_quorum)
    return {one.node_id: f"{one.host}:{one.port}" for one in quorum.controllers}


def settings_file(cluster: ServedCluster) -> Path:
    [found] = (Path(one.settings_file) for one in cluster.laid_out if one.node_id == NODE)
    return found


def test_a_controller_that_starts_at_another_port_is_one_of_the_quorum_again(
    tmp_path: Path,
) -> None:
    with ServedCluster(tmp_path / "data") as cluster:
        cluster.start()
        before = controllers(cluster.bootstrap)
        cluster.nodes[NODE].end()
        moved_to = HeldPort()
        file = settings_file(cluster)
        lines = file.read_text().splitlines()
        for index, line in enumerate(lines):
            if line.startswith(("listeners=", "advertised.listeners=")):
                lines[index] = line.replace(before[NODE], moved_to.address)
        file.write_text("\n".join(lines))
        cluster.start(NODE)
        after = {**before, NODE: moved_to.address}
        until("the quorum knows", lambda: controllers(cluster.bootstrap) == after)

        # Two of three are left: the quorum needs the one that has moved.
        cluster.nodes[1].end(signal.SIGKILL)
        admin = AdminClient({"bootstrap.servers": cluster.addresses[2]})
        admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(WAIT_SECONDS)
        cluster.start(1)
        until("the one that was away knows", lambda: controllers(cluster.addresses[1]) == after)


def test_a_controller_that_joins_by_itself_votes_again_after_it_was_removed(
    tmp_path: Path,
) -> None:
    with ServedCluster(tmp_path / "data") as cluster:
        cluster.start()
        quorum = run_with_cluster(cluster.bootstrap, describe_quorum)
        [directory_id] = (one.directory_id for one in quorum.voters if one.node_id == NODE)
        cluster.nodes[NODE].end()
        run_with_cluster(
            cluster.addresses[1], lambda one: remove_voter(one, NodeId(NODE), directory_id)
        )
        assert voters(cluster) == {1, 2}
        with settings_file(cluster).open("a") as settings:
            settings.write("\ncontroller.quorum.auto.join.enable=true\n")
        cluster.start(NODE)
        until("it votes", lambda: voters(cluster) == {1, 2, NODE})


def voters(cluster: ServedCluster) -> set[int]:
    quorum = run_with_cluster(cluster.addresses[1], describe_quorum)
    return {one.node_id for one in quorum.voters}
