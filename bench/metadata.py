"""Whether start-up time and metadata stay flat over many restarts and many changes of one node.

    python bench/metadata.py [--restarts N] [--changes N] [--topics N] [--crash]

One node in this process, on a real directory. First it is stopped and started again and again
(`--crash`: killed instead of stopped, so that every partition is led in a new epoch each time).
Then settings of its topics are changed again and again, with a restart after every hundredth part.
The curves are the CPU time of a start, since other work on the machine distorts the rest, and the
size of the metadata log and its snapshots.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from flatness import drawn, flatness_of
from rich.console import Console
from rich.progress import track
from rich.table import Table

from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.node.build import OpenNode, build
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.wire.messages import incremental_alter_configs as alter
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.world.real import real_world

KIB = 1024
PARTS = 100  # of the changes, between restarts
AT_ONCE = 50  # changes under way


class Measured:
    """One node on a directory, and what its starts cost."""

    def __init__(self, data: Path) -> None:
        settings = parse_broker({"listeners": "PLAINTEXT://127.0.0.1:0"})
        self.config = NodeConfig(node_id=NodeId(1), data_directory=str(data), settings=settings)
        self.metadata = data / "node-1" / "__cluster_metadata-0"
        self.start_ms: list[float] = []
        self.size_kib: list[float] = []
        self.node: Node | None = None

    async def start(self) -> OpenNode:
        started = time.process_time()
        self.node = build(real_world(), self.config)
        await self.node.start()
        self.start_ms.append((time.process_time() - started) * 1000)
        kept = [path for path in self.metadata.iterdir() if not path.name.endswith(".deleted")]
        self.size_kib.append(sum(path.stat().st_size for path in kept) / KIB)
        running = self.node._running
        assert isinstance(running, OpenNode)
        return running

    async def stop(self, *, crash: bool) -> None:
        assert self.node is not None
        await (self.node.kill() if crash else self.node.stop())

    def take(self) -> dict[str, list[float]]:
        curves = {"start, CPU ms": self.start_ms, "metadata, KiB": self.size_kib}
        self.start_ms, self.size_kib = [], []
        return curves


async def create(running: OpenNode, topics: int) -> None:
    wanted = [
        CreatableTopic(name=f"topic-{index}", num_partitions=1, replication_factor=1)
        for index in range(topics)
    ]
    reply = await running.controller.ask(CreateTopicsRequest(topics=wanted))
    assert all(result.error_code == 0 for result in reply.topics)


async def change(running: OpenNode, numbers: range, topics: int) -> None:
    for first in range(numbers.start, numbers.stop, AT_ONCE):
        await asyncio.gather(
            *(
                running.controller.ask(
                    alter.IncrementalAlterConfigsRequest(
                        resources=[
                            alter.AlterConfigsResource(
                                resource_type=ResourceKind.TOPIC,
                                resource_name=f"topic-{number % topics}",
                                configs=[
                                    alter.AlterableConfig(
                                        name="retention.ms",
                                        config_operation=Operation.SET,
                                        value=str(1_000_000 + number),
                                    )
                                ],
                            )
                        ]
                    )
                )
                for number in range(first, min(first + AT_ONCE, numbers.stop))
            )
        )


async def measure(given: argparse.Namespace, data: Path, console: Console) -> None:
    measured = Measured(data)
    running = await measured.start()
    await create(running, given.topics)
    await measured.stop(crash=given.crash)
    measured.take()
    for _ in track(range(given.restarts), "restarts", console=console):
        await measured.start()
        await measured.stop(crash=given.crash)
    kind = "crashes" if given.crash else "restarts"
    show(console, f"{given.restarts} {kind}, {given.topics} topics", measured.take())
    size = max(1, given.changes // PARTS)
    for part in track(range(PARTS), "changes", console=console):
        running = await measured.start()
        await change(running, range(part * size, (part + 1) * size), given.topics)
        await measured.stop(crash=given.crash)
    show(console, f"{PARTS * size} changes, {given.topics} topics", measured.take())


def show(console: Console, title: str, curves: dict[str, list[float]]) -> None:
    table = Table(title=title)
    for column in ("", "second quarter", "last quarter", "growth", "flat", "curve"):
        table.add_column(column)
    for name, curve in curves.items():
        found = flatness_of(curve, slack=2.0)
        table.add_row(
            name,
            f"{found.second_quarter:.1f}",
            f"{found.last_quarter:.1f}",
            f"{found.growth:+.0%}",
            "yes" if found.is_flat else "no",
            drawn(curve, width=40),
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--restarts", type=int, default=1000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--crash", action="store_true", help="kill the node instead of stopping it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        asyncio.run(measure(given, Path(data), Console(width=120)))


if __name__ == "__main__":
    main()
