"""A task's attempt at a node: what it leaves open, what it withdraws, and under which id."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from penstock.client.network.cluster import Cluster
from penstock.spark.connection import run
from penstock.spark.options import ConnectionOptions
from penstock.spark.sink.actions import Look, Seen
from penstock.spark.sink.at_least_once import Acked, write_plainly
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.decision import Prepared
from penstock.spark.sink.errors import MissingTopic
from penstock.spark.sink.flows import claim, decide
from penstock.spark.sink.leftover_transactions import open_of_sink
from penstock.spark.sink.names import Attempt, TaskNumbers, first_attempt
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.single_writes import give_up as give_up_write
from penstock.spark.sink.single_writes import is_late as is_late_for_write
from penstock.spark.sink.single_writes import write_once
from penstock.spark.sink.task import Late, Work, with_rows, write_attempt
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.sink_shell import SinkShell, with_sink

Topics = Callable[..., str]
ROWS = pa.record_batch([pa.array([b"row"])], names=["value"])


def attempt_of(shell: SinkShell, attempt: int = 0, unique: int = 0) -> Attempt:
    task = TaskNumbers(partition=0, attempt=attempt, unique=unique)
    return first_attempt(shell.sink, "run", 0, task, two_phase=shell.two_phase)


async def tried(
    shell: SinkShell,
    rows: Iterator[pa.RecordBatch],
    *,
    topic: str | None = None,
    attempt: int = 0,
    unique: int = 0,
    late: bool = False,
) -> Prepared | Late | None:
    options = SinkOptions(
        connection=ConnectionOptions(bootstrap="unused"), topic=topic or shell.topic
    )
    work = Work(rows=rows, columns=Columns(value=0), options=options, partition=0)

    async def is_late() -> bool:
        return late

    return await write_attempt(
        shell.cluster,
        work,
        attempt_of(shell, attempt, unique),
        two_phase=shell.two_phase,
        is_late=is_late,
    )


def test_attempt_leaves_its_rows_open(node: ServedNode, topic: Topics) -> None:
    name = topic()

    async def work(shell: SinkShell) -> None:
        prepared = await tried(shell, iter([ROWS]))
        assert isinstance(prepared, Prepared)
        [left] = await open_of_sink(shell.cluster, shell.sink)
        assert left.transactional_id == prepared.transactional_id
        async with shell.carrier() as carrier:
            await carrier.run(write_once(shell.driver("run"), [prepared]))

    with_sink(node.bootstrap, name, work)
    assert [record.value for record in committed_records(node.bootstrap, name)] == [b"row"]


def test_attempt_without_rows_leaves_nothing(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        assert await tried(shell, iter([])) is None
        assert await open_of_sink(shell.cluster, shell.sink) == []

    with_sink(node.bootstrap, topic(), work)


def test_task_without_rows_asks_no_broker_anything() -> None:
    nowhere = ConnectionOptions(bootstrap="127.0.0.1:1")
    empty = [pa.record_batch([pa.array([], pa.binary())], names=["value"])] * 2
    work = Work(
        rows=iter(empty),
        columns=Columns(value=0),
        options=SinkOptions(connection=nowhere, topic="orders"),
        partition=0,
    )

    async def write(cluster: Cluster, work: Work) -> str:
        await cluster.refresh()
        return "written"

    assert run(with_rows(work, write)) is None
    assert run(write_plainly(work)) == Acked()


@pytest.mark.parametrize("two_phase", [True, False])
def test_attempt_that_fails_or_comes_late_withdraws_what_it_wrote(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    name = topic()

    def breaks() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([b"x" * 1_000_000] * 8)], names=["value"])
        raise RuntimeError("wrong")

    async def work(shell: SinkShell) -> object:
        with pytest.raises(RuntimeError, match="wrong"):
            await tried(shell, breaks())
        assert await tried(shell, iter([ROWS]), attempt=1, late=True) == Late()
        assert await open_of_sink(shell.cluster, shell.sink) == []
        async with shell.carrier() as carrier:
            return await carrier.carry_out(Look(attempt_of(shell, 1).transactional_id))

    seen = with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert seen is (Seen.IDLE if two_phase else Seen.ABORTED)
    assert committed_records(node.bootstrap, name) == []


def test_id_of_an_attempt_that_is_under_way_is_not_written_under(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> None:
        first, second = await tried(shell, iter([ROWS])), await tried(shell, iter([ROWS]))
        assert isinstance(first, Prepared)
        assert isinstance(second, Prepared)
        assert first.transactional_id != second.transactional_id
        async with shell.carrier() as carrier:
            await carrier.run(write_once(shell.driver("run"), [second]))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    name = topic()
    with_sink(node.bootstrap, name, work)
    assert len(committed_records(node.bootstrap, name)) == 1


@pytest.mark.parametrize("two_phase", [True, False])
def test_second_attempt_of_a_stage_leaves_what_the_first_has_told(
    node: ServedNode, topic: Topics, two_phase: bool
) -> None:
    async def work(shell: SinkShell) -> None:
        driver = shell.driver("run")
        async with shell.carrier() as carrier:
            await carrier.run(claim(driver, 0, None))
            first = await tried(shell, iter([ROWS]), unique=4)
            assert isinstance(first, Prepared)
            assert isinstance(await tried(shell, iter([ROWS]), unique=7), Prepared)
            await carrier.run(decide(driver, 0, [first]))
        assert await open_of_sink(shell.cluster, shell.sink) == []

    name = topic()
    with_sink(node.bootstrap, name, work, two_phase=two_phase)
    assert len(committed_records(node.bootstrap, name)) == 1


def test_task_that_ends_after_its_write_was_given_up_withdraws(
    node: ServedNode, topic: Topics
) -> None:
    async def work(shell: SinkShell) -> tuple[bool, bool]:
        driver = shell.driver("run")
        async with shell.carrier() as carrier:
            before = await carrier.run(is_late_for_write(driver))
            await carrier.run(give_up_write(driver))
            return before, await carrier.run(is_late_for_write(driver))

    assert with_sink(node.bootstrap, topic(), work) == (False, True)


def test_unknown_topic_is_refused_in_one_line(node: ServedNode, topic: Topics) -> None:
    async def work(shell: SinkShell) -> None:
        with pytest.raises(MissingTopic, match="topic nowhere does not exist"):
            await tried(shell, iter([ROWS]), topic="nowhere")

    with_sink(node.bootstrap, topic(), work)
