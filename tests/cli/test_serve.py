"""`penstock serve` as a process: ready, stopped, refused."""

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.serve import read_settings
from rig.serve import ServedNode

TESTS = Path(__file__).resolve().parents[1]

Run = Callable[..., Any]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_node_formats_serves_and_stops_cleanly_when_told(
    run: Run, tmp_path: Path, how: signal.Signals
) -> None:
    node = ServedNode(data=tmp_path / "data", settings={"num.partitions": "3"})
    node.start()
    assert run("topics create a", bootstrap=node.bootstrap).status == 0
    assert run("topics list --json").json()[0]["partitions"] == 3
    assert node.stop(how) == 0
    assert "node stopped" in node.logged()
    (described,) = run(f"storage info --data {tmp_path / 'data'} --json").json()
    assert described["clean"]
    assert {p["partition"] for p in described["partitions"]} >= {"a-0", "a-1", "a-2"}


def test_node_comes_back_with_what_it_had(run: Run, tmp_path: Path) -> None:
    node = ServedNode(data=tmp_path / "data")
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    node.start()
    run("topics create a", bootstrap=node.bootstrap)
    run(f"produce a {lines}")
    node.stop()
    node.start()
    assert run("consume a", bootstrap=node.bootstrap).lines == ["one", "two"]
    node.stop()
    recovered = [line for line in node.logged().splitlines() if "recovery " in line]
    assert len(recovered) == 2
    assert "segments_scanned=0" in recovered[-1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--nodes 3 --listen 127.0.0.1:1", "pass --port 1"),
        ("--console 127.0.0.1:1", "no console yet"),
        ("--set num.partition=3", "did you mean num.partitions"),
        ("--set num.partitions=many", "num.partitions"),
        ("--set zookeeper.connect=localhost:2181", "No ZooKeeper is needed"),
        ("--set port=9093", "use listeners=PLAINTEXT://HOST:PORT"),
        ("--set penstock.alerts.topic=__consumer_offsets", "is an internal topic"),
        ("--set penstock.alerts.topic=a:b", "Topic name is invalid"),
        ("--set nonsense", "expected NAME=VALUE"),
        ("--listen nowhere", "listeners"),
        ("--config /no/such/file", "/no/such/file"),
    ],
)
def test_what_can_not_be_served_is_refused_in_one_line(run: Run, options: str, said: str) -> None:
    outcome = run(f"serve {options}")
    assert outcome.status != 0
    assert said in outcome.err
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "first"),
    [("A log for everyone.\n\nIt serves.\n", "A"), ('{"num": {"partitions": 3}}', '{"num"')],
)
def test_config_that_is_no_properties_file_is_refused(
    run: Run, tmp_path: Path, text: str, first: str
) -> None:
    (tmp_path / "file").write_text(text)
    outcome = run(f"serve --config {tmp_path / 'file'} --data {tmp_path / 'data'}")
    assert outcome.status == 1
    assert outcome.err == (
        f"penstock: --config {tmp_path / 'file'} is no server.properties: "
        f"not one name in it is that of a setting, as {first!r}\n"
    )
    assert not (tmp_path / "data").exists()


def test_bug_ends_the_process_with_one_critical_line_and_a_status(tmp_path: Path) -> None:
    code = (
        "import rig.interpreted\n"  # what is compiled could not be broken
        "import sys, penstock.broker.network.dispatch as dispatch\n"
        "from penstock.cli.main import main\n"
        "def broken(frame): raise AssertionError('a bug')\n"
        "dispatch.decode_request_header = broken\n"
        f"sys.argv[1:] = ['serve', '--data', {str(tmp_path)!r}, '--listen', '127.0.0.1:0']\n"
        "main()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TESTS
    ) as node:
        assert node.stdout is not None
        host, port = node.stdout.readline().removeprefix("penstock ready: ").strip().split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            assert client.recv(1) == b""
        _, logged = node.communicate(timeout=120)
        assert node.returncode == 1
    assert logged.count("level=critical") == 1
    assert logged.splitlines()[-1] == "penstock: stopped by an error: AssertionError: a bug"


def test_stop_that_goes_wrong_is_told_by_the_status(tmp_path: Path) -> None:
    code = (
        "import sys, penstock.log.directory as directory\n"
        "from penstock.cli.main import main\n"
        "def broken(self, **given): raise AssertionError('a bug')\n"
        "directory.LogDirectory.close = broken\n"
        f"sys.argv[1:] = ['serve', '--data', {str(tmp_path)!r}, '--listen', '127.0.0.1:0']\n"
        "main()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        assert node.stdout.readline().startswith("penstock ready: ")
        node.terminate()
        _, logged = node.communicate(timeout=120)
        assert node.returncode == 1
    assert logged.count("level=critical") == 1


def test_optimised_python_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-m", "penstock.cli.main", "serve", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, check=False)
    assert done.returncode == 1
    assert "-O" in done.stderr


def test_address_that_is_taken_is_told(run: Run, tmp_path: Path) -> None:
    node = ServedNode(data=tmp_path / "data")
    node.start()
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--listen", node.bootstrap]
    command += ["--data", str(tmp_path / "other")]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, check=False)
    node.stop()
    assert done.returncode == 1
    assert "Address already in use" in done.stderr.splitlines()[-1]


def test_directory_in_use_is_not_taken(run: Run, tmp_path: Path) -> None:
    node = ServedNode(data=tmp_path / "data")
    node.start()
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += ["--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, timeout=120, text=True, check=False)
    node.stop()
    assert done.returncode == 1
    assert ".lock" in done.stderr.splitlines()[-1]


def test_file_of_properties_is_obeyed_and_idle_names_are_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# Kafka's own\nnum.partitions=4\nnum.io.threads: 8\nnode.id=7\n")
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--listen", "127.0.0.1:0"]
    command += [
        "--data",
        str(tmp_path / "data"),
        "--config",
        str(file),
        "--set",
        "num.partitions=5",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        bootstrap = node.stdout.readline().removeprefix("penstock ready: ").strip()
        run("topics create a", bootstrap=bootstrap)
        (topic,) = run("topics describe a --json").json()
        node.terminate()
        assert node.stderr is not None
        logged = node.stderr.read()
    assert len(topic["partitions"]) == 5
    assert topic["partitions"][0]["leader"] == 7
    assert "settings_without_effect names=num.io.threads" in logged


def test_retired_settings_are_ignored_and_told_with_what_to_use(tmp_path: Path) -> None:
    retired = {"log.message.timestamp.difference.max.ms": "1000", "log.message.format.version": "3"}
    node = ServedNode(data=tmp_path / "data", settings=retired)
    node.start()
    node.stop()
    logged = node.logged()
    assert "setting_ignored name=log.message.format.version retired_since_kafka=4" in logged
    assert "instead=log.message.timestamp.before.max.ms" in logged


def test_serving_imports_neither_the_client_nor_what_draws_nor_what_waits_for_its_first_use() -> (
    None
):
    """Of the client, the errors that links between nodes raise are known to a node alone, too. A
    node that is idle has no log to clean and no batch to expand.
    """
    code = (
        "import sys, penstock.cli.main, penstock.cli.serve;"
        "needed = ('penstock.client', 'penstock.client.network', 'penstock.client.network.errors');"
        "unneeded = ('penstock.client.', 'rich.', 'importlib.metadata.', 'email.',"
        " 'multiprocessing.', 'cramjam.');"
        "print([name for name in sys.modules"
        " if (name + '.').startswith(unneeded) and name not in needed])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_help_imports_no_noun() -> None:
    code = (
        "import sys, contextlib, io; sys.argv = ['penstock', '--help'];"
        "from penstock.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    main()\n"
        "assert 'serve' in out.getvalue()\n"
        "print(sorted(m for m in sys.modules if m.startswith(('penstock.', 'rich', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120, text=True, check=True
    )
    loaded = [
        "penstock.cli",
        "penstock.cli.command_group",
        "penstock.cli.compiled",
        "penstock.cli.escape",
        "penstock.cli.last_line",
        "penstock.cli.main",
        "penstock.cli.outputs",
        "penstock.cli.status",
        "penstock.cli.typed_text",
        "penstock.model",
        "penstock.model.error",
        "penstock.records",
    ]
    assert done.stdout.strip() == str(loaded)


def test_listen_leaves_the_listeners_of_controllers_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,controller://127.0.0.1:9093\n"
    )
    settings = read_settings(listen="127.0.0.1:0", config=file, assignments=())
    assert list(map(str, settings.listeners)) == [
        "PLAINTEXT://127.0.0.1:0",
        "CONTROLLER://127.0.0.1:9093",
    ]


def test_a_voter_that_is_not_formatted_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        "controller.quorum.voters=1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095\n"
        "controller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\n"
    )
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--config", str(file)]
    done = subprocess.run(
        command, capture_output=True, timeout=120, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("penstock: ./penstock-data/node-1 is not formatted")
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]
