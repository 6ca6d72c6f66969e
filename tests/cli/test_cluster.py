"""`penstock cluster describe` and `penstock cluster quorum`."""

from collections.abc import Callable

from penstock.testing import running_broker
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
