"""`penstock cluster unregister|add-controller|remove-controller|upgrade`, and what they refuse.

A refusal is one line, and nothing has changed.
"""

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.client.admin.membership import NewVoter, add_voter, remove_voter
from penstock.client.admin.quorum import describe_quorum
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.identity import NodeId
from penstock.testing import Broker, running_broker
from penstock.wire.api import ApiKey
from penstock.wire.messages.endpoints import NamedEndpoint
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.client_cluster import RULES, run_with_cluster
from rig.cluster_questions import until
from rig.command import Outcome
from rig.held_port import HeldPort
from rig.reassigning import create_on, until_settled
from rig.repeating_relay import repeating_relay

Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with running_broker(nodes=3) as broker:
        yield broker


def refused(run: Run, command: str, cluster: Broker) -> str:
    """The one line that is said, by a command that changes nothing."""
    before = state(run, cluster)
    outcome = run(command, bootstrap=cluster.nodes[1])
    assert outcome.status != 0
    assert outcome.out == b""
    assert outcome.err.count("\n") == 1
    assert state(run, cluster) == before
    return outcome.err


def state(run: Run, cluster: Broker) -> list[object]:
    """Who belongs to the cluster, and where partitions are."""
    described = run("cluster describe --json", bootstrap=cluster.nodes[1]).json()
    quorum = run("cluster quorum --json").json()
    voters = [(one["id"], one["directory_id"]) for one in quorum["voters"]]
    listed = run("topics list --json").json()
    topics = [run(f"topics describe {one['name']} --json").json() for one in listed]
    return [described["brokers"], described["features"], voters, topics]


def is_fenced(run: Run, cluster: Broker, node: int) -> bool:
    described = run("cluster describe --json", bootstrap=cluster.nodes[1]).json()
    return [one["fenced"] for one in described["brokers"] if one["id"] == node] == [True]


def properties(cluster: Broker, node: int, path: Path, **given: str) -> Path:
    """The file of a controller that is not part of the cluster yet."""
    address = HeldPort().address
    controllers = f"CONTROLLER://{address}"
    settings = {
        "process.roles": "controller",
        "node.id": str(node),
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": controllers,
        "advertised.listeners": controllers,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(path / f"controller-{node}"),
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    file = path / f"controller-{node}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def test_a_broker_that_is_unknown_is_not_unregistered(run: Run, cluster: Broker) -> None:
    assert refused(run, "cluster unregister 9", cluster) == (
        "penstock: there is no broker 9, only 1,2,3\n"
    )


def test_a_broker_that_runs_is_not_unregistered(run: Run, cluster: Broker) -> None:
    assert refused(run, "cluster unregister 2", cluster) == (
        "penstock: broker 2 is running: stop it first, or it registers again\n"
    )


@pytest.mark.penstock(nodes=4)
def test_a_broker_is_drained_stopped_and_unregistered(run: Run, penstock: Broker) -> None:
    create_on(penstock.nodes[1], "orders", [[4, 1], [2, 4], [1, 2]])
    penstock.produce("orders", ["one", "two"])
    penstock.stop(4)
    until("broker 4 is fenced", lambda: is_fenced(run, penstock, 4))
    assert refused(run, "cluster unregister 4", penstock) == (
        "penstock: broker 4 has replicas of 2 partitions, orders-0 among them: move them with"
        " `penstock partitions reassign --drain 4`, or give --force\n"
    )
    planned = run("partitions reassign --drain 4 --dry-run --json").json()["moves"]
    assert [(one["topic"], one["partition"]) for one in planned] == [("orders", 0), ("orders", 1)]
    told = run("partitions reassign --drain 4 --throttle 1000000 --watch --json").json()
    targets = {one["partition"]: set(one["target"]) for one in told["partitions"]}
    assert targets[0] > {1} and targets[1] > {2}
    assert 4 not in targets[0] | targets[1]
    until_settled(penstock.nodes[1])
    throttles = run("partitions reassign --verify --json").json()["throttles_removed"]
    assert throttles == [], "they were removed with the last move"
    done = run("cluster unregister 4")
    assert (done.status, done.lines) == (0, ["broker 4 is unregistered"])
    described = run("cluster describe --json").json()
    assert [one["id"] for one in described["brokers"]] == [1, 2, 3]
    assert {record.value for record in penstock.records("orders")} == {b"one", b"two"}


@pytest.mark.penstock(nodes=3)
def test_a_dead_broker_with_replicas_is_unregistered_by_force(run: Run, penstock: Broker) -> None:
    create_on(penstock.nodes[1], "lost", [[3]], {"min.insync.replicas": "1"})
    penstock.kill(3)
    until("broker 3 is fenced", lambda: is_fenced(run, penstock, 3))
    assert "has replicas of lost-0: move" in refused(run, "cluster unregister 3", penstock)
    done = run("cluster unregister 3 --force --json", bootstrap=penstock.nodes[1]).json()
    assert done == {"unregistered": 3, "partitions_with_replicas": 1}
    described = run("cluster describe --json").json()
    assert [one["id"] for one in described["brokers"]] == [1, 2]


def test_brokers_that_are_unknown_or_all_of_them_are_not_drained(run: Run, cluster: Broker) -> None:
    create_on(cluster.nodes[1], "stays", [[1, 2, 3]])
    for option, said in (
        ("9", "--drain: there is no broker 9, only 1,2,3"),
        ("1,1", "--drain: a broker is named twice in 1,1"),
        ("1,2,3", "--drain: no broker that runs would be left"),
        ("3", "stays-0: 3 replicas cannot be on 2 brokers"),
    ):
        command = f"partitions reassign --drain {option}"
        assert refused(run, command, cluster) == f"penstock: {said}\n"


def test_more_replicas_than_nodes_are_refused(run: Run, cluster: Broker) -> None:
    said = refused(run, "topics create wide --partitions 1 --replicas 4", cluster)
    assert said.startswith("penstock: wide: ")
    assert "3 brokers" in said or "3 broker(s)" in said


def test_what_is_no_voter_is_not_removed(run: Run, cluster: Broker) -> None:
    assert refused(run, "cluster remove-controller 9", cluster) == (
        "penstock: controller 9 does not vote, only 1,2,3 do\n"
    )
    other = "--directory-id AAAAAAAAAAAAAAAAAAAAAQ"
    assert refused(run, f"cluster remove-controller 2 {other}", cluster) == (
        "penstock: controller 2: The node is no voter with this directory id.\n"
    )


@pytest.mark.penstock(nodes=3)
def test_the_last_voter_is_not_removed(run: Run, penstock: Broker) -> None:
    for node in (3, 2):
        done = run(f"cluster remove-controller {node}", bootstrap=penstock.nodes[1])
        assert done.status == 0, done.err
        assert f"controller {node} votes no more" in done.text
    assert refused(run, "cluster remove-controller 1", penstock) == (
        "penstock: controller 1: The last voter cannot be removed.\n"
    )
    voters = run("cluster quorum --json", bootstrap=penstock.nodes[1]).json()["voters"]
    assert [one["id"] for one in voters] == [1]


@pytest.mark.penstock(nodes=3)
def test_a_voter_whose_removal_would_leave_no_majority_stays_without_force(
    run: Run, penstock: Broker
) -> None:
    penstock.kill(3)

    def said() -> str:
        return run("cluster remove-controller 2 --directory-id AAAAAAAAAAAAAAAAAAAAAQ").err

    run("cluster quorum", bootstrap=penstock.nodes[1])
    until("controller 3 is seen to be dead", lambda: "must stay" in said())
    refusal = refused(run, "cluster remove-controller 2", penstock)
    assert refusal.startswith("penstock: controller 2 must stay: without it 1,3 vote, of which 3")
    forced = "cluster remove-controller 2 --force --directory-id AAAAAAAAAAAAAAAAAAAAAQ"
    assert "is no voter with this directory id" in run(forced).err, "only the leader refuses it"
    assert run("cluster remove-controller 3").status == 0, "the dead one"
    assert run("cluster remove-controller 2").status == 0


@pytest.mark.penstock(nodes=3)
def test_a_controller_is_removed_and_added_again_with_json(run: Run, penstock: Broker) -> None:
    quorum = run("cluster quorum --json", bootstrap=penstock.nodes[1]).json()
    [directory_id] = [one["directory_id"] for one in quorum["voters"] if one["id"] == 3]
    removed = run("cluster remove-controller 3 --json").json()
    assert removed == {"removed": 3, "directory_id": directory_id}
    file = penstock.data / "node-3" / "server.properties"
    added = run(f"cluster add-controller --config {file} --json").json()
    assert added == {"added": 3, "directory_id": directory_id}
    voters = run("cluster quorum --json").json()["voters"]
    assert [one["id"] for one in voters] == [1, 2, 3]


@pytest.mark.penstock(nodes=3)
def test_quorum_is_told_at_once_when_the_active_controller_was_removed(penstock: Broker) -> None:
    """By both of the others: one of them is elected while it is asked."""
    active = penstock.active_controller()
    others = [address for node, address in penstock.nodes.items() if node != active]
    before = run_with_cluster(others[0], describe_quorum)
    [directory_id] = [one.directory_id for one in before.voters if one.node_id == active]
    run_with_cluster(others[0], lambda one: remove_voter(one, NodeId(active), directory_id))
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(lambda at: run_with_cluster(at, describe_quorum), others))
    assert active not in {one.node_id for quorum in told for one in quorum.voters}


@pytest.mark.penstock(nodes=3)
def test_a_change_of_voters_that_was_repeated_on_its_way_is_done(penstock: Broker) -> None:
    """The second request is refused, for what the first one did."""
    node = NodeId(2 if penstock.active_controller() == 3 else 3)
    before = run_with_cluster(penstock.nodes[1], describe_quorum)
    [directory_id] = [one.directory_id for one in before.voters if one.node_id == node]
    [at] = [one for one in before.controllers if one.node_id == node]
    listener = NamedEndpoint(name="CONTROLLER", host=at.host, port=at.port)
    voter = NewVoter(node_id=node, directory_id=directory_id, listeners=[listener])

    def voters_after(api: ApiKey, change: Callable[[Cluster], Awaitable[None]]) -> list[int]:
        async def work(_: Cluster) -> list[int]:
            async with (
                repeating_relay(penstock.nodes[1], api_key=api) as relay,
                Cluster(
                    TcpNetwork(), RealClock(), parse_addresses(relay.address), rules=RULES
                ) as cluster,
            ):
                await change(cluster)
                assert relay.repeated > 0
                return [one.node_id for one in (await describe_quorum(cluster)).voters]

        found: list[int] = run_with_cluster(penstock.nodes[1], work)
        return found

    def remove(cluster: Cluster) -> Awaitable[None]:
        return remove_voter(cluster, node, directory_id)

    def add(cluster: Cluster) -> Awaitable[None]:
        return add_voter(cluster, voter)

    assert node not in voters_after(ApiKey.REMOVE_RAFT_VOTER, remove)
    with pytest.raises(Refused, match="The node is no voter"):
        run_with_cluster(penstock.nodes[1], remove)
    assert node in voters_after(ApiKey.ADD_RAFT_VOTER, add)
    with pytest.raises(Refused, match="The node is a voter already"):
        run_with_cluster(penstock.nodes[1], add)


def test_voters_that_are_fixed_are_not_removed(run: Run) -> None:
    with running_broker() as alone:
        assert refused(run, "cluster remove-controller 1", alone) == (
            "penstock: controller 1: Kraft.version is 0: the voters are those of"
            " controller.quorum.voters.\n"
        )


def test_features_are_not_lowered(run: Run, cluster: Broker) -> None:
    assert refused(run, "cluster upgrade kraft.version=0", cluster) == (
        "penstock: kraft.version cannot be updated: it has level 1, and 0 would be a downgrade.\n"
    )
    assert refused(run, "cluster upgrade metadata.version=20", cluster) == (
        "penstock: metadata.version cannot be updated: it has level 30, and 20 would be a"
        " downgrade.\n"
    )
    assert "does not know the feature" in refused(run, "cluster upgrade nonsense=1", cluster)
    assert "a level is a number" in run("cluster upgrade kraft.version=two").err


def test_a_level_that_the_cluster_has_already_is_fine(run: Run, cluster: Broker) -> None:
    tried = run("cluster upgrade kraft.version=1 --dry-run", bootstrap=cluster.nodes[1])
    assert (tried.status, tried.lines) == (0, ["kraft.version could be raised to level 1"])
    done = run("cluster upgrade kraft.version=1 --json").json()
    assert done == {"levels": {"kraft.version": 1}, "upgraded": True}


def test_a_controller_that_is_not_formatted_or_none_is_not_added(
    run: Run, cluster: Broker, tmp_path: Path
) -> None:
    file = properties(cluster, 7, tmp_path)
    assert refused(run, f"cluster add-controller --config {file}", cluster) == (
        f"penstock: {tmp_path}/controller-7 is not formatted: run `penstock storage format --config"
        f" {file} --cluster-id ID --no-initial-controllers`, and start the node\n"
    )
    broker = properties(
        cluster, 8, tmp_path, process_roles="broker", listeners="PLAINTEXT://127.0.0.1:1",
        advertised_listeners="PLAINTEXT://127.0.0.1:1",
    )  # fmt: skip
    assert refused(run, f"cluster add-controller --config {broker}", cluster) == (
        f"penstock: {broker}: node 8 is no controller: see process.roles\n"
    )
