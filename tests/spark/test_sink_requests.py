"""How many requests a batch of the sink costs its node, by the node's own count."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from rig.scraping import scrape, url_in
from rig.served_cluster import PENSTOCK, NodeProcess
from rig.sink_output import committed_values
from rig.sink_shell import SinkShell, claimed, decided, sink_at

REQUESTS = "kafka_network_requestmetrics_requests_total"
COUNTED = ("DescribeTransactions", "EndTxn", "FindCoordinator")
READY = "penstock ready: "
TOPIC = "rows"
TASKS = 150


@dataclass(slots=True)
class RequestCounter:
    """Requests since the last look, by the names of their APIs: of those that need not be repeated
    while others are at work.
    """

    url: str
    before: Counter[str] = field(default_factory=Counter)

    def since(self) -> Counter[str]:
        found = scrape(self.url).by(REQUESTS, "request")
        now = Counter({name: round(found.get(name, 0)) for name in COUNTED})
        more, self.before = now - self.before, now
        return more


@dataclass(frozen=True, slots=True)
class CountedNode:
    bootstrap: str
    requests: RequestCounter


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[CountedNode]:
    command = [PENSTOCK, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    command += ["--metrics", "0", "--set", "transaction.two.phase.commit.enable=true"]
    process = NodeProcess("serve", command, tmp_path / "log")
    process.begin()
    bootstrap = process.until_logged(READY, at_start=True).removeprefix(READY).strip()
    yield CountedNode(bootstrap, RequestCounter(url_in(process.logged())))
    assert process.end() == 0


@pytest.mark.parametrize("two_phase", [True])
def test_commit_of_each_further_task_costs_one_request(
    counted: CountedNode, two_phase: bool
) -> None:
    async def batch(shell: SinkShell, batch_id: int, tasks: int) -> Counter[str]:
        rows = [
            await shell.write(b"row", run_id="run", batch_id=batch_id, partition=partition)
            for partition in range(tasks)
        ]
        counted.requests.since()
        await decided(shell, "run", batch_id, *rows)
        return counted.requests.since()

    async def work() -> list[Counter[str]]:
        async with sink_at(counted.bootstrap, TOPIC, two_phase=two_phase) as shell:
            await Admin(shell.cluster).create_topics([NewTopic(name=TOPIC, partitions=1)])
            await claimed(shell, "run")
            counts = (2, TASKS, 2, TASKS)
            return [await batch(shell, number, count) for number, count in enumerate(counts)]

    few, many, few_again, many_again = asyncio.run(work())
    ends = Counter(EndTxn=TASKS - 2)
    assert many - few == ends, (few, many)
    if two_phase:
        # Every other batch has the same transactional ids, and their coordinators are known.
        assert few - few_again == Counter(FindCoordinator=1)
        assert many - many_again == Counter(FindCoordinator=1)
        assert many_again - few_again == ends
    assert len(committed_values(counted.bootstrap, TOPIC)) == 2 * TASKS + 4
