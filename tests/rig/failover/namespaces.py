"""Nodes on networks of their own, with a router between them that loses what it is told to lose.

    clients (this process)  10.77.0.2 --+
    node 1                  10.77.1.2 --+-- router, which has the address .1 of each network
    node 2                  10.77.2.2 --+

Each is a network namespace of Linux; all are in a user namespace, so that no rights are needed and
nothing of the machine's own network is touched. What is lost is lost in silence, as by a cable that
is pulled: a packet from one address to another meets a `blackhole` rule of the router.

A process must be started with `INSIDE` in front of its command to make them.
"""

import os
import subprocess
import time
from collections.abc import Iterable

INSIDE = ("unshare", "--user", "--map-root-user", "--net")
CLIENTS = 0
WAIT_SECONDS_MAX = 20
RULE = "10"  # before the routes
CHECK = "ip link add probe0 type veth peer name probe1 && ip rule add from 10.77.0.2 blackhole"


def refusal() -> str | None:
    """Why namespaces cannot be made here."""
    try:
        tried = subprocess.run(
            [*INSIDE, "sh", "-c", CHECK], capture_output=True, text=True, timeout=WAIT_SECONDS_MAX
        )
    except OSError as error:
        return str(error)
    return None if tried.returncode == 0 else tried.stderr.strip().splitlines()[0]


class Namespaces:
    """Made at once, and gone with this object's `close` or with the process."""

    def __init__(self, nodes: Iterable[int]) -> None:
        numbers = [CLIENTS, *nodes]
        self.hosts = {number: f"10.77.{number}.2" for number in numbers if number != CLIENTS}
        self._holders: list[subprocess.Popen[bytes]] = []
        self._router = self._namespace()
        self._nodes = {number: self._namespace() for number in self.hosts}
        for setting in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
            name, value = setting.split("=")
            path = f"/proc/sys/net/ipv4/{name.replace('.', '/')}"
            run([*self._router, "sh", "-c", f"echo {value} >{path}"])
        for number in numbers:
            self._connect(number)

    @property
    def prefixes(self) -> dict[int, list[str]]:
        """What makes a command run as that of a node."""
        return self._nodes

    def cut(self, source: int, target: int) -> None:
        """What one sends to the other is lost from now on; the other way is as it was."""
        run([*self._router, "ip", "rule", "add", *self._rule(source, target)])

    def heal(self) -> None:
        """Nothing is lost any more."""
        shown = run([*self._router, "ip", "rule", "show", "pref", RULE])
        for _ in shown.splitlines():
            run([*self._router, "ip", "rule", "del", "pref", RULE])

    def close(self) -> None:
        for holder in self._holders:
            assert holder.stdin is not None
            holder.stdin.close()
            holder.wait()

    def _rule(self, source: int, target: int) -> list[str]:
        pair = ["from", f"10.77.{source}.2", "to", f"10.77.{target}.2"]
        return ["pref", RULE, *pair, "blackhole"]

    def _namespace(self) -> list[str]:
        """A new one, which lives as long as its holder; the command that enters it."""
        holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        self._holders.append(holder)
        path, own = f"/proc/{holder.pid}/ns/net", os.readlink("/proc/self/ns/net")
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while os.readlink(path) == own:
            assert holder.poll() is None and time.monotonic() < deadline, "no network namespace"
            time.sleep(0.01)
        return ["nsenter", f"--net={path}"]

    def _connect(self, number: int) -> None:
        """A cable between a namespace and the router."""
        inside = self._nodes.get(number, [])
        cable, end = f"cable{number}", f"end{number}"
        router = self._holders[0].pid
        run(["ip", "link", "add", end, "type", "veth", "peer", "name", cable, "netns", str(router)])
        if inside:
            pid = self._holders[1 + list(self._nodes).index(number)].pid
            run(["ip", "link", "set", end, "netns", str(pid)])
        for command in (
            [*self._router, "ip", "addr", "add", f"10.77.{number}.1/24", "dev", cable],
            [*self._router, "ip", "link", "set", cable, "up"],
            [*inside, "ip", "addr", "add", f"10.77.{number}.2/24", "dev", end],
            [*inside, "ip", "link", "set", end, "up"],
            [*inside, "ip", "link", "set", "lo", "up"],
            [*inside, "ip", "route", "add", "default", "via", f"10.77.{number}.1"],
        ):
            run(command)


def run(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS_MAX)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stderr.strip()}"
    return ended.stdout
