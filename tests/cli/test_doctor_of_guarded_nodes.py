"""`penstock doctor` on nodes with TLS and ACLs, and on such without."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.model.settings.authorization import STANDARD_AUTHORIZER
from penstock.testing import Broker, running_broker
from rig.cluster_questions import until
from rig.command import Outcome
from rig.examined import Examined
from rig.held_port import HeldPort
from rig.served_cluster import ServedCluster
from rig.tls_files import TlsFiles

Run = Callable[..., Outcome]
GUARDED = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",  # whoever runs the command here
}


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """One whose listener is of TLS, with the settings of a client in the environment."""
    files, port = TlsFiles(tmp_path / "tls"), HeldPort()
    settings = files.node_settings() | GUARDED | {"listeners": f"SSL://{port.address}"}
    use_tls(files, tmp_path, monkeypatch)
    with running_broker(settings=settings) as broker:
        yield broker


def test_tls_on_all_listeners_passes(run: Run, guarded: Broker) -> None:
    found = Examined(run, guarded.bootstrap).report()
    assert (found["tls"]["status"], found["tls"]["reason"]) == (
        "pass",
        "this connection and all listeners of 1 broker use TLS",
    )


def test_rights_of_everyone_are_taken_away(run: Run, guarded: Broker) -> None:
    examined = Examined(run, guarded.bootstrap)
    assert examined.status("acls") == "pass"
    assert run("acls add 'User:*' read --topic 'orders-*'").status == 0
    assert run("acls add alice read --topic 'orders-*'").status == 0
    assert examined.status("acls") == "warn"
    assert run("acls add 'User:*' alter --cluster").status == 0
    assert run("acls add 'User:*' write --topic '*'").status == 0
    found = examined.report()["acls"]
    assert found["status"] == "fail"
    assert {one["reason"] for one in found["faults"]} == {
        "everyone may read topic orders-*",
        "everyone may alter cluster kafka-cluster",
        "everyone may write topic *",
    }
    assert len(examined.mend("acls")) == 3
    found = examined.report()["acls"]
    assert (found["status"], found["reason"]) == ("pass", "1 entry, none for everyone")


def test_an_authorizer_that_lets_everyone_in_fails(run: Run) -> None:
    settings = GUARDED | {"allow.everyone.if.no.acl.found": "true"}
    with running_broker(settings=settings) as broker:
        found = Examined(run, broker.bootstrap).report()["acls"]
    assert (found["status"], found["reason"]) == (
        "fail",
        "broker 1 allows everyone what no ACL is about",
    )


def test_plain_text_and_no_authorizer_fail(run: Run, penstock: Broker) -> None:
    found = Examined(run, penstock.bootstrap).report()
    assert found["tls"]["reason"] == (
        "this connection is PLAINTEXT, not encrypted; broker 1 listens without TLS: PLAINTEXT"
    )
    assert found["acls"]["reason"] == "there is no authorizer: everyone may do everything"
    assert (found["tls"]["status"], found["acls"]["status"]) == ("fail", "fail")


def test_a_listener_without_tls_beside_one_with_it_is_warned_of(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, port, plain = TlsFiles(tmp_path / "tls"), HeldPort(), HeldPort()
    listeners = f"OUTER://{port.address},INNER://{plain.address}"
    settings = files.node_settings() | {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "OUTER:SSL,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
    }
    use_tls(files, tmp_path, monkeypatch)
    with running_broker(settings=settings):
        found = Examined(run, port.address).report()["tls"]
    assert (found["status"], found["reason"]) == ("warn", "broker 1 listens without TLS: INNER")


def test_a_client_without_rights_sees_little_and_is_told_so(run: Run) -> None:
    with running_broker(settings=GUARDED | {"super.users": "User:admin"}) as broker:
        found = Examined(run, broker.bootstrap).report()
    assert found["acls"]["status"] == "unknown"
    assert "authoriz" in found["acls"]["reason"].lower()


def test_a_cluster_where_nothing_fails_ends_with_0_unless_warnings_count(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = TlsFiles(tmp_path / "tls")
    protocols = {"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL"}
    use_tls(files, tmp_path, monkeypatch)
    changed = protocols | files.node_settings() | GUARDED
    with ServedCluster(tmp_path / "data", changed=changed) as cluster:
        cluster.start()
        until("it is whole", lambda: len(brokers(run, cluster)) == 3)
        run("topics create orders --partitions 3 --set min.insync.replicas=2")
        plain = run("doctor --disk-free 0 --json", bootstrap=cluster.bootstrap)
        told = json.loads(plain.out)
        failed = [one for one in told["checks"] if one["status"] in ("warn", "fail")]
        assert (plain.status, failed) == (0, [])
        assert run("doctor --disk-free 0 --strict").status == 0
        run("topics alter orders --set retention.ms=-1")
        assert run("doctor --disk-free 0").status == 0
        assert run("doctor --disk-free 0 --strict").status == 1


def brokers(run: Run, cluster: ServedCluster) -> list[object]:
    told = run("cluster describe --json", bootstrap=cluster.bootstrap)
    return json.loads(told.out)["brokers"] if told.status == 0 else []


def use_tls(files: TlsFiles, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a client, in the environment."""
    config = folder / "client.properties"
    client = {"security.protocol": "SSL"} | files.client_settings()
    config.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
    monkeypatch.setenv("PENSTOCK_COMMAND_CONFIG", str(config))
