"""The nodes of a cluster as processes, each started alone by the file that was laid out for it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock.metadata.bootstrap_files import BOOTSTRAP_FILE, bootstrap_checkpoint, first_records
from penstock.model.identity import id_text, random_id
from penstock.node.cluster_layout import (
    LaidOutNode,
    lay_out,
    plan_layout,
    port_count,
    write_layout,
)
from penstock.node.first_users import parse_user
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.entropy import RealEntropy
from rig.broker import NO_RETENTION_ROUND
from rig.held_port import HeldPort

WAIT_SECONDS_MAX = 120
PENSTOCK = str(Path(sys.executable).with_name("penstock"))


class NodeProcess:
    """One node; its standard error goes to a file that can be waited for."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Starts it without a wait."""
        assert not self.running
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def has_open(self, path: Path) -> bool:
        """Whether it has this file open now; False once it has ended."""
        descriptors = Path(f"/proc/{self.pid}/fd")
        with suppress(OSError):  # the process has ended
            for name in os.listdir(descriptors):
                with suppress(OSError):  # it was closed meanwhile
                    if os.readlink(descriptors / name) == str(path):
                        return True
        return False

    def logged(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def until_logged(self, text: str, *, times: int = 1, at_start: bool = False) -> str:
        """The line with the text, or that begins with it, once there are so many of them."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            lines = self.logged().splitlines()
            found = [line for line in lines if text in line and line.find(text) * at_start == 0]
            if len(found) >= times:
                return found[times - 1]
            assert self.running, f"{self.name} ended without {text!r}: {self.logged()[-3000:]}"
            assert time.monotonic() < deadline, f"no {text!r}: {self.logged()[-3000:]}"
            time.sleep(0.02)

    def until_ended(self) -> int:
        assert self._process is not None
        return self._process.wait(WAIT_SECONDS_MAX)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """A clean stop, or another; the exit status."""
        assert self._process is not None
        if self.running:
            os.kill(self.pid, how)
        return self.until_ended()


class ServedCluster:
    """Laid out in a directory; the ports are held for the length of the test. Use as a context:
    what still runs is killed at the end. `changed` goes before what a layout says; `users` can log
    in by SCRAM from the first start on.
    """

    def __init__(
        self,
        data: Path,
        nodes: int = 3,
        *,
        changed: Mapping[str, str] | None = None,
        users: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self.data = data
        self._ports = [HeldPort() for _ in range(port_count(nodes))]
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.laid_out: tuple[LaidOutNode, ...] = lay_out(
            nodes,
            data_directory=str(data),
            ports=[port.number for port in self._ports],
            settings={**NO_RETENTION_ROUND, **given},
        )
        self.laid_out = tuple(
            replace(one, settings={**one.settings, **(changed or {})}) for one in self.laid_out
        )
        entropy = RealEntropy()
        planned = plan_layout(
            self.laid_out,
            cluster_id=id_text(random_id(entropy.random_bytes)),
            random_bytes=entropy.random_bytes,
            now_ms=RealClock().now_ms(),
        )
        write_layout(RealDisk(), self.laid_out, planned)
        if users:
            records = [parse_user(user, random_bytes=entropy.random_bytes) for user in users]
            first = first_records(min_insync_replicas="2", users=records)
            for one in self.laid_out:
                checkpoint = bootstrap_checkpoint(first, now_ms=RealClock().now_ms())
                (Path(one.directory) / BOOTSTRAP_FILE).write_bytes(checkpoint)
        self.nodes = {int(one.node_id): self.process(one) for one in self.laid_out}
        self.addresses = {
            int(one.node_id): port.address
            for one, port in zip(self.laid_out, self._ports, strict=False)
        }
        self.controllers = [port.address for port in self._ports[nodes:]]

    def process(self, node: LaidOutNode) -> NodeProcess:
        command = [PENSTOCK, "serve", "--config", node.settings_file]
        return NodeProcess(node.name, command, self.data / f"{node.name}.log")

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def start(self, *numbers: int) -> None:
        """Starts these nodes, or all, and waits until they are ready."""
        wanted = numbers or tuple(self.nodes)
        ready = {number: self.nodes[number].logged().count(READY) for number in wanted}
        for number in wanted:
            self.nodes[number].begin()
        for number in wanted:
            self.nodes[number].until_logged(READY, times=ready[number] + 1)

    def __enter__(self) -> "ServedCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.running:
                node.end(signal.SIGKILL)


READY = "penstock ready: "
