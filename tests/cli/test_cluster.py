"""`penstock cluster describe` and `penstock cluster quorum`."""

from collections.abc import Callable, Iterator

import pytest

from penstock.testing import Broker, running_broker
from rig.command import Outcome
from rig.held_port import HeldPort


def test_broker_that_cannot_be_reached_is_described_without_versions(
    run: Callable[..., Outcome],
) -> None:
    listening, nobody = HeldPort(), HeldPort()
    settings = {"advertised.listeners": f"PLAINTEXT://{nobody.address}"}
    with running_broker(settings=settings, port=listening.number):
        told = run("cluster describe --versions --json", bootstrap=listening.address).json()
        shown = run("cluster describe --versions", bootstrap=listening.address)
    [described] = told["brokers"]
    assert (described["port"], described["versions"]) == (nobody.number, None)
    assert nobody.address in described["error"]
    assert shown.status == 0
    assert f"broker 1: its versions are not known: {described['error']}" in shown.lines
    assert "metadata.version" in shown.text


def test_quorum_shows_the_one_voter_and_its_end(run: Callable[..., Outcome]) -> None:
    with running_broker() as broker:
        told = run("cluster quorum --json", bootstrap=broker.bootstrap).json()
        shown = run("cluster quorum", bootstrap=broker.bootstrap)
    [voter] = told["voters"]
    assert (told["leader"], voter["id"], voter["lag"]) == (1, 1, 0)
    assert voter["log_end_offset"] >= told["high_watermark"] > 0
    assert shown.status == 0
    assert f"leader 1  epoch 1  high watermark {told['high_watermark']}" in shown.lines
    assert "ms ago" in shown.text


def test_features_are_listed_with_their_levels(run: Callable[..., Outcome]) -> None:
    with running_broker() as broker:
        told = run("cluster features --json", bootstrap=broker.bootstrap).json()
        shown = run("cluster features", bootstrap=broker.bootstrap)
    by_name = {one["name"]: one for one in told["features"]}
    assert by_name["metadata.version"]["level"] == 30
    kraft = by_name["kraft.version"]
    assert (kraft["level"], kraft["supported_min"], kraft["supported_max"]) == (0, 0, 1)
    assert shown.status == 0
    assert "kraft.version" in shown.text


def test_broker_that_is_asked_as_a_controller_says_so(run: Callable[..., Outcome]) -> None:
    with running_broker() as broker:
        for command in ("describe", "quorum"):
            refused = run(f"cluster {command} --bootstrap-controller {broker.bootstrap}")
            assert refused.status == 1
            assert refused.err == (
                "penstock: controllers: The request was sent to an endpoint of type BROKER, "
                "but we wanted an endpoint of type CONTROLLER\n"
            )


def test_describe_names_the_active_controller(run: Callable[..., Outcome]) -> None:
    with running_broker() as broker:
        told = run("cluster describe --json", bootstrap=broker.bootstrap).json()
        shown = run("cluster describe", bootstrap=broker.bootstrap)
    assert told["controller"] == 1
    assert [(one["id"], one["fenced"]) for one in told["brokers"]] == [(1, False)]
    assert f"cluster {told['cluster_id']}  active controller 1" in shown.lines


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """Four nodes: three of them vote."""
    with running_broker(nodes=4) as broker:
        yield broker


def controllers_of(run: Callable[..., Outcome], cluster: Broker) -> dict[int, str]:
    told = run("cluster describe --json", bootstrap=cluster.bootstrap).json()
    return {one["id"]: f"{one['host']}:{one['port']}" for one in told["controllers"]}


def test_every_node_describes_the_same_cluster(
    run: Callable[..., Outcome], cluster: Broker
) -> None:
    told = [
        run("cluster describe --json", bootstrap=address).json()
        for address in cluster.nodes.values()
    ]
    assert all(one == told[0] for one in told)
    assert told[0]["controller"] == cluster.active_controller()
    assert {one["id"]: f"{one['host']}:{one['port']}" for one in told[0]["brokers"]} == (
        cluster.nodes
    )
    assert [one["id"] for one in told[0]["controllers"]] == [1, 2, 3]
    [active] = [one["id"] for one in told[0]["controllers"] if one["active"]]
    assert active == told[0]["controller"]


def test_every_controller_describes_the_controllers(
    run: Callable[..., Outcome], cluster: Broker
) -> None:
    controllers = controllers_of(run, cluster)
    for address in controllers.values():
        told = run(f"cluster describe --bootstrap-controller {address} --json").json()
        assert told["brokers"] is None
        assert told["controller"] == cluster.active_controller()
        assert {one["id"]: f"{one['host']}:{one['port']}" for one in told["controllers"]} == (
            controllers
        )
        assert told["features"]["metadata.version"] > 0
    shown = run(f"cluster describe --versions --bootstrap-controller {controllers[1]}")
    assert shown.status == 0
    assert "controller 3" in shown.text
    assert "VOTE" in shown.text


def test_quorum_is_described_by_brokers_and_controllers(
    run: Callable[..., Outcome], cluster: Broker
) -> None:
    addresses = list(cluster.nodes.values())
    options = [f"--bootstrap {address}" for address in addresses]
    options += [
        f"--bootstrap-controller {address}" for address in controllers_of(run, cluster).values()
    ]
    for option in options:
        told = run(f"cluster quorum {option} --json").json()
        assert told["leader"] == cluster.active_controller()
        assert [one["id"] for one in told["voters"]] == [1, 2, 3]
        assert [one["id"] for one in told["observers"]] == [4]
        assert all(one["directory_id"] for one in told["voters"])


def test_controller_that_is_asked_as_a_broker_says_so(
    run: Callable[..., Outcome], cluster: Broker
) -> None:
    address = controllers_of(run, cluster)[2]
    refused = run(f"cluster describe --bootstrap {address}")
    assert refused.status == 1
    assert "sent to an endpoint of type CONTROLLER" in refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.penstock(nodes=3)
def test_fenced_broker_is_shown(run: Callable[..., Outcome], penstock: Broker) -> None:
    penstock.stop(2)
    expected = {1: False, 2: True, 3: False}
    fenced: dict[int, bool] = {}
    while fenced != expected:  # the node that is asked may be some milliseconds behind
        told = run("cluster describe --json", bootstrap=penstock.nodes[1]).json()
        fenced = {one["id"]: one["fenced"] for one in told["brokers"]}
    assert "fenced" in run("cluster describe").text
