"""The ten commands of docs/security.md, as they stand there, make a secured cluster."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from penstock.model.settings.broker import parse_broker, without_effect
from penstock.world.properties import parse_properties
from rig.source_tree import ROOT

GUIDE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PREFIXES = ("909", "919", "929")  # of ports: the last digit is that of the node
WAIT_SECONDS = 300
STOPPED = "for job in $(jobs -p); do kill $job; done; wait"


def blocks(language: str) -> list[str]:
    [section] = [one for one in GUIDE.split("\n## ") if one.startswith("The same by hand")]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [content for named, content in fenced if named == language]


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_prefixes() -> dict[str, str]:
    """As many tens of ports, below those that systems give to clients."""
    begin = 1100 + os.getpid() * 7 % 1000
    free = [
        str(tens) for tens in range(begin, begin + 600) if all(map(is_free, _ports_of(str(tens))))
    ]
    return dict(zip(PREFIXES, free, strict=False))


def _ports_of(prefix: str) -> list[int]:
    return [int(f"{prefix}{node}") for node in (1, 2, 3)]


def run_in_bash(lines: list[str], folder: Path) -> list[tuple[int, str]]:
    """Status and output of each line, all typed into one shell."""
    script = []
    for index, line in enumerate(lines):
        script += [f"{{ {line}\n}} > out-{index} 2>&1", f"echo $? > status-{index}"]
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join([*script, STOPPED])],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        shell.wait(WAIT_SECONDS)
    finally:
        with suppress(ProcessLookupError):  # its nodes too, if it has not stopped them itself
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return [
        (int((folder / f"status-{index}").read_text()), (folder / f"out-{index}").read_text())
        for index in range(len(lines))
    ]


def test_ten_commands_make_a_secured_cluster_that_refuses_a_stranger(tmp_path: Path) -> None:
    prefixes = free_prefixes()
    assert set(prefixes) == set(PREFIXES), "no free ports"

    def here(text: str) -> str:
        return re.sub(r"(?<=localhost:)\d{3}", lambda found: prefixes[found[0]], text)

    node, client = blocks("properties")
    (tmp_path / "node.properties").write_text(here(node))
    (tmp_path / "client.properties").write_text(client)
    [commands] = [block for block in blocks("") if "storage format" in block]
    lines = here(commands).splitlines()
    assert len(lines) == 10
    asked = "KAFKA_USER=alice KAFKA_PASSWORD=alice-secret penstock topics create others"
    outcomes = run_in_bash([*lines, asked], tmp_path)
    *worked, stranger, alice = outcomes
    logs = "".join(path.read_text()[-3000:] for path in tmp_path.glob("node-?.log"))
    for line, (status, output) in zip(lines, worked, strict=False):
        assert status == 0, f"{line}\n{output}\n{logs}"
    assert "one umbrella\n" in worked[-1][1]
    status, output = stranger
    assert status == 1
    [said] = re.findall(r"The last one is refused: `(.*?)`", GUIDE)
    assert said in output
    assert "orders" not in output
    status, output = alice
    assert status == 1
    assert "authorization" in output.lower()


def test_every_setting_of_the_guide_has_an_effect() -> None:
    node, _ = blocks("properties")
    settings = parse_broker(parse_properties(node.replace("NODE", "1")))
    assert settings.unknown == ()
    assert without_effect(settings) == ()


def test_every_page_that_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", GUIDE)
    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
