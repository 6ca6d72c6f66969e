"""How many requests a batch of the sink costs its node, by the node's own count."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.produce.producer import Producer
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.driver import plan_batch, plan_write
from penstock.spark.sink.options import SinkOptions
from rig.scraping import scrape, url_in
from rig.served_cluster import PENSTOCK, NodeProcess
from rig.sink_output import committed_values
from rig.sink_shell import DECISIONS, SinkShell, claimed, decided, sink_at

REQUESTS = "kafka_network_requestmetrics_requests_total"
COUNTED = ("DescribeTransactions", "EndTxn", "Fetch", "FindCoordinator")
READY = "penstock ready: "
TOPIC = "rows"
TASKS = 150


@dataclass(slots=True)
class RequestCounter:
    """Requests since the last look, by the names of their APIs."""

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


@pytest.mark.parametrize("two_phase", [True, False])
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

    few, many, few_again, many_again = (_without_fetches(one) for one in asyncio.run(work()))
    ends = Counter(EndTxn=TASKS - 2)
    assert many - few == ends, (few, many)
    if two_phase:
        # Every other batch has the same transactional ids, and their coordinators are known.
        assert few - few_again == Counter(FindCoordinator=1)
        assert many - many_again == Counter(FindCoordinator=1)
        assert many_again - few_again == ends
    assert len(committed_values(counted.bootstrap, TOPIC)) == 2 * TASKS + 4


def _without_fetches(requests: Counter[str]) -> Counter[str]:
    """What is fetched depends on when it was written."""
    return Counter({name: count for name, count in requests.items() if name != "Fetch"})


@pytest.mark.parametrize("of_a_query", [True, False])
def test_what_was_read_of_the_decisions_is_not_read_again(
    counted: CountedNode, of_a_query: bool
) -> None:
    """Before each batch; a process that has planned one knows the decisions up to there."""

    async def work() -> list[int]:
        async with sink_at(counted.bootstrap, TOPIC) as shell:
            await Admin(shell.cluster).create_topics([NewTopic(name=TOPIC, partitions=1)])
            await claimed(shell, "run")
            connection = ConnectionOptions(bootstrap=counted.bootstrap)
            options = SinkOptions(connection=connection, topic=TOPIC, decision_topic=DECISIONS)
            claim = shell.driver("run").claim
            fetched = []
            for batch_id in (0, 1):
                for _ in range(2):
                    counted.requests.since()
                    if of_a_query:
                        planned = await plan_batch(options, shell.sink)
                    else:
                        planned = await plan_write(options, shell.sink, claim, batch_id, once=False)
                    fetched.append(counted.requests.since()["Fetch"])
                    assert planned.found is not None
                    last = planned.found.decided
                    assert (-1 if last is None else last.batch_id) == batch_id - 1
                await decided(shell, "run", batch_id, await shell.write(b"row", run_id="run"))
            return fetched

    fetched = asyncio.run(work())
    assert [fetched[1], fetched[3]] == [0, 0], fetched


def test_decisions_of_a_topic_that_was_made_anew_are_read_from_its_beginning(
    counted: CountedNode,
) -> None:
    async def work() -> list[object]:
        found: list[object] = []
        async with sink_at(counted.bootstrap, TOPIC) as shell:
            await claimed(shell, "run")
            found.append((await shell.decisions.last(shell.sink)).record)
            await Admin(shell.cluster).delete_topics([DECISIONS])
        async with sink_at(counted.bootstrap, TOPIC) as other:
            place = await other.decisions.place_of(shell.sink)
            async with Producer(other.cluster) as producer:
                for _ in range(50):  # beyond what was read of the former one
                    await producer.send(place.topic, b"?", key=b"?", partition=place.partition)
            found.append((await other.decisions.last(shell.sink)).record)
        return found

    before, after = asyncio.run(work())
    assert before is not None
    assert after is None
