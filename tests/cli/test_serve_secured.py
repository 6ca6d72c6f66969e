"""`penstock serve --nodes N --secured DIR`: real processes; nobody comes in without a log-in."""

import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.model.settings.broker import parse_broker, without_effect
from penstock.world.properties import read_properties
from rig.command import Outcome
from rig.served_cluster import PENSTOCK, READY, NodeProcess

Run = Callable[..., Outcome]
TOLD = "settings for the admin's clients: "


@contextmanager
def served(folder: Path, *options: str) -> Iterator[NodeProcess]:
    command = [PENSTOCK, "serve", "--nodes", "3", "--data", str(folder / "data"), *options]
    process = NodeProcess("serve", command, folder / "serve.log")
    process.begin()
    try:
        yield process
    finally:
        if process.running:
            process.end(signal.SIGINT)


def ready(process: NodeProcess, *, times: int = 1) -> list[str]:
    line = process.until_logged(READY, times=times, at_start=True)
    return line.removeprefix(READY).split(",")


def test_a_secured_cluster_lets_the_admin_in_and_nobody_else_and_starts_cold(
    run: Run, tmp_path: Path
) -> None:
    secured = tmp_path / "security"
    with served(tmp_path, "--port", "0", "--secured", str(secured)) as process:
        bootstrap = ",".join(ready(process))
        admin = Path(process.until_logged(TOLD, at_start=True).removeprefix(TOLD))
        assert admin == secured / "admin.properties"
        as_admin = f"--bootstrap {bootstrap} --command-config {admin}"
        assert run(f"topics create orders {as_admin}").status == 0
        stranger = tmp_path / "stranger.properties"
        password = read_properties(admin)["sasl.jaas.config"].split('"')[3]
        stranger.write_text(admin.read_text().replace(password, "guessed"))
        for config in ("", f"--command-config {stranger}"):
            refused = run(f"topics list --bootstrap {bootstrap} {config}")
            assert refused.status == 1, refused
            assert "orders" not in refused.text
        assert process.end(signal.SIGTERM) == 0
    for path in secured.iterdir():
        if path.name != "ca.pem":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    # All nodes were down. Each starts by its own file, and finds the users in the metadata.
    nodes = [
        NodeProcess(
            f"node-{number}",
            [PENSTOCK, "serve", "--config", f"{tmp_path}/data/node-{number}/server.properties"],
            tmp_path / f"node-{number}.log",
        )
        for number in (1, 2, 3)
    ]
    try:
        for node in nodes:
            node.begin()
        for node in nodes:
            node.until_logged(READY)
        [topic] = run(f"topics list --json {as_admin}").json()
        assert topic["name"] == "orders"
        for node in nodes:
            assert node.end() == 0
    finally:
        for node in nodes:
            if node.running:
                node.end(signal.SIGKILL)
    with served(tmp_path, "--secured", str(secured)) as process:
        assert ",".join(ready(process, times=2)) == bootstrap


def test_the_listener_of_nodes_takes_certificates_of_the_own_authority_alone(
    run: Run, tmp_path: Path
) -> None:
    secured = tmp_path / "security"
    with served(tmp_path, "--port", "0", "--secured", str(secured)) as process:
        ready(process)
        admin = secured / "admin.properties"
        settings = read_properties(tmp_path / "data" / "node-1" / "server.properties")
        [inside] = [one for one in settings["listeners"].split(",") if "BROKERS" in one]
        bootstrap = inside.removeprefix("BROKERS://")
        trusted = [line for line in admin.read_text().splitlines() if "truststore" in line]
        config = tmp_path / "inside.properties"
        config.write_text("\n".join(["security.protocol=SSL", *trusted, ""]))
        refused = run(f"topics list --bootstrap {bootstrap} --command-config {config}")
        assert refused.status == 1, "no certificate was shown"
        key = f"ssl.keystore.type=PEM\nssl.keystore.location={secured}/node-1.pem\n"
        config.write_text(config.read_text() + key)
        assert run(f"topics create a --bootstrap {bootstrap} --command-config {config}").status == 0
        # The same name, by another authority.
        other = tmp_path / "other"
        assert run(f"security init {other} --nodes-only").status == 0
        config.write_text(config.read_text().replace(f"{secured}/node-1", f"{other}/node-1"))
        refused = run(f"topics list --bootstrap {bootstrap} --command-config {config}")
        assert refused.status == 1


def test_every_setting_that_is_written_has_an_effect(tmp_path: Path) -> None:
    with served(tmp_path, "--port", "0", "--secured", str(tmp_path / "security")) as process:
        process.until_logged(TOLD)
    for number in (1, 2, 3):
        file = tmp_path / "data" / f"node-{number}" / "server.properties"
        settings = parse_broker(read_properties(file))
        assert settings.unknown == ()
        assert without_effect(settings) == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--secured {path}/full", "--secured: {path}/full is not empty: name a new directory"),
        ("--secured {path}/new --set super.users=User:a", "super.users is what --secured decides"),
        ("--secured {path}/new --set listeners=SSL://:1", "listeners is part of the layout"),
        ("--secured {path}/new --port 65530", "3 nodes take 9 ports"),
    ],
)
def test_what_cannot_be_secured_is_refused_and_no_node_is_laid_out(
    run: Run, tmp_path: Path, options: str, said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    data = tmp_path / "data"
    port = "" if "--port" in options else "--port 0"
    outcome = run(f"serve --nodes 3 --data {data} {port} {options.format(path=tmp_path)}")
    assert outcome.status == 1
    [line] = outcome.err.splitlines()
    assert said.format(path=tmp_path) in line
    assert not data.exists()
    assert not (tmp_path / "new").exists()


def test_nodes_that_are_there_are_not_secured_by_an_option(run: Run, tmp_path: Path) -> None:
    with served(tmp_path, "--port", "0") as process:
        ready(process)
    outcome = run(f"serve --nodes 3 --data {tmp_path}/data --secured {tmp_path}/security")
    assert outcome.status == 1
    assert f"was not laid out with --secured {tmp_path}/security" in outcome.err
    assert not (tmp_path / "security").exists()
