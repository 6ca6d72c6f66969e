"""What `penstock sim scale` measures, on a cluster that is small."""

import time

import pytest
from click.testing import CliRunner

from penstock.cli.sim_scale import scale
from penstock.sim.scale.figures import Change, Loss, SizeFigures
from penstock.sim.scale.metadata_size import memory_bytes
from penstock.sim.scale.metered_loop import MeteredLoop
from penstock.sim.scale.run import CHANGES, ScalePlan, run_scale

NODES = 4
PARTITIONS = 24
REPLICAS = 3
SESSION_MS = 9_000


@pytest.fixture(scope="module")
def figures() -> SizeFigures:
    """Of one run, for all tests: it takes some seconds."""
    steps: list[str] = []
    plan = ScalePlan(nodes=NODES, partitions=PARTITIONS, replicas=REPLICAS)
    [found] = run_scale(plan, lambda what, done, total: steps.append(what))
    assert steps, "it says what it does"
    return found


def test_leaders_of_a_killed_node_are_elsewhere_before_any_session_ends(
    figures: SizeFigures,
) -> None:
    for kind in (Loss.KILLED, Loss.CONTROLLER):
        lost = figures.losses[kind]
        assert 0 < lost.led <= lost.replicas <= PARTITIONS + CHANGES + 1  # topics it created
        assert 0 < lost.elsewhere_ms < SESSION_MS / 10


def test_leaders_of_a_node_without_power_are_elsewhere_once_its_session_has_ended(
    figures: SizeFigures,
) -> None:
    lost = figures.losses[Loss.SILENT]
    assert lost.led > 0
    assert SESSION_MS / 2 < lost.elsewhere_ms < 2 * SESSION_MS


def test_each_kind_of_change_and_of_loss_has_its_cpu_time(figures: SizeFigures) -> None:
    assert figures.changes.keys() == set(Change)
    for change in figures.changes.values():
        assert change.controller_cpu_ms > 0
        assert change.other_cpu_ms > 0
    assert figures.losses.keys() == set(Loss)
    for loss in figures.losses.values():
        assert loss.controller_cpu_ms > 0
        assert loss.busiest_cpu_ms > 0
        assert loss.back_cpu_ms > 0


def test_the_metadata_hold_a_record_of_each_partition(figures: SizeFigures) -> None:
    metadata = figures.metadata
    assert metadata.snapshot_records > PARTITIONS
    assert metadata.image_bytes > metadata.snapshot_records
    assert metadata.disk_bytes > 0
    assert metadata.snapshot_bytes > PARTITIONS * 100  # a record has three directory ids


def test_a_large_cluster_is_measured_on_its_way() -> None:
    def sizes(partitions: int) -> tuple[int, ...]:
        return ScalePlan(nodes=10, partitions=partitions, replicas=3).sizes

    assert sizes(500) == (500,)
    assert sizes(10_000) == (1_000, 10_000)
    assert sizes(40_000) == (1_000, 10_000, 40_000)


def test_cpu_time_belongs_to_the_machine_whose_code_takes_it() -> None:
    loop = MeteredLoop()  # type: ignore[abstract]

    async def work(cpu_ns: int) -> None:
        until_ns = time.thread_time_ns() + cpu_ns
        while time.thread_time_ns() < until_ns:
            pass

    async def simulation() -> None:
        busy = loop.start_for("busy 1", work(30_000_000), name="work", host="busy")
        idle = loop.start_for("idle 1", work(0), name="work", host="idle")
        await busy
        await idle

    try:
        loop.run_until_complete(simulation())
    finally:
        loop.close()
    taken = loop.cpu_ns()
    assert taken["busy"] >= 30_000_000
    assert taken["idle"] < taken["busy"] / 2


def test_memory_counts_each_object_once() -> None:
    one = [bytes(10_000)]
    assert memory_bytes([one, one]) < 2 * memory_bytes(one)
    assert memory_bytes([one, [bytes(10_001)]]) > 20_000


def test_more_replicas_than_nodes_are_refused_in_one_line() -> None:
    result = CliRunner().invoke(scale, ["--nodes", "3", "--replicas", "4"])
    assert result.exit_code == 2
    assert "--replicas 4 needs as many nodes: there are 3" in result.output
