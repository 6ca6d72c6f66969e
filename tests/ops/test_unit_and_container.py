"""The systemd unit and the container file: what they run is taken by `penstock`, and by systemd."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.cli.serve import read_settings
from rig.command_lines import accepted, words
from rig.held_port import HeldPort
from rig.ops_files import OPS, manifest
from rig.scraping import scrape, url_in
from rig.served_cluster import PENSTOCK, READY, NodeProcess

UNIT = OPS / "systemd" / "penstock.service"
CONTAINER = (OPS / "container" / "Containerfile").read_text("utf-8")
INSTALLED = "/usr/local/bin/penstock"
STOP_SECONDS = 180


def service() -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # its documented use
    parser.read(UNIT, encoding="utf-8")
    return dict(parser["Service"])


def instructions(name: str) -> list[str]:
    joined = CONTAINER.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace(INSTALLED, PENSTOCK), encoding="utf-8")
    outcome = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    about_it = [line for line in outcome.stderr.splitlines() if UNIT.name in line]
    assert outcome.returncode == 0, outcome.stderr
    assert about_it == []
    copy.write_text(copy.read_text().replace("Restart=on-failure", "Restart=on-failures"))
    planted = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    assert "on-failures" in planted.stderr


def test_the_unit_runs_a_node_as_its_own_user_and_gives_it_time_to_stop() -> None:
    found = service()
    assert found["ExecStart"].split()[0] == INSTALLED
    line = found["ExecStart"].replace("/etc/penstock/server.properties", __file__)
    assert accepted(words(line))["metrics"] == "127.0.0.1:9404"
    assert found["User"] == found["Group"] == found["StateDirectory"] == "penstock"
    assert found["Restart"] == "on-failure"
    assert found["KillSignal"] == "SIGTERM"
    assert found["TimeoutStopSec"] == f"{STOP_SECONDS}s"
    assert int(found["LimitNOFILE"]) >= 65536
    assert found["ProtectSystem"] == "strict"
    grace = manifest("StatefulSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace == STOP_SECONDS


def test_the_image_runs_a_node_that_clients_on_the_machine_reach() -> None:
    [entry], [command] = (
        map(json.loads, instructions("ENTRYPOINT")),
        map(json.loads, instructions("CMD")),
    )
    assert entry == ["penstock"]
    options = accepted(command)
    [volume] = instructions("VOLUME")
    assert options["data"] == volume == "/var/lib/penstock"
    assignments = options["assignments"]
    assert isinstance(assignments, tuple)
    settings = read_settings(listen=None, config=None, assignments=assignments)
    assert settings.unknown == ()
    [exposed] = instructions("EXPOSE")
    assert {"9092", "9404"} <= set(exposed.split())
    assert str(options["metrics"]) == "0.0.0.0:9404"


def test_what_the_image_runs_starts_and_stops(tmp_path: Path) -> None:
    [command] = map(json.loads, instructions("CMD"))
    port = HeldPort()
    here = {
        "/var/lib/penstock": str(tmp_path / "data"),
        "0.0.0.0:9092": port.address,
        "127.0.0.1:9092": port.address,
        "0.0.0.0:9404": "127.0.0.1:0",
    }
    for there, instead in here.items():
        command = [word.replace(there, instead) for word in command]
    node = NodeProcess("image", [PENSTOCK, *command], tmp_path / "log")
    node.begin()
    try:
        assert node.until_logged(READY).endswith(port.address)
        assert scrape(url_in(node.logged()))("kafka_server_kafkaserver_brokerstate") == 3
    finally:
        status = node.end()
    assert status == 0


def test_the_image_has_a_user_without_rights_and_what_it_copies_is_there() -> None:
    [user] = instructions("USER")
    pod = manifest("StatefulSet")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert all("-slim" in image for image in instructions("FROM"))
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
    assert not instructions("ENV") and not instructions("ARG")
    for line in instructions("COPY"):
        *sources, _ = [word for word in shlex.split(line) if not word.startswith("--")]
        if "--from=build" not in line:
            assert [name for name in sources if not (OPS.parent / name).exists()] == []
