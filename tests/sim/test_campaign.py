"""A campaign runs every seed once, in processes of their own, as one process would."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.sim.campaign import campaign
from penstock.sim.run import run_seed
from penstock.sim.workers import SeedBudget, over_seeds

WAIT_S_MAX = 60


def test_every_seed_has_the_verdict_that_it_has_alone() -> None:
    verdicts = list(campaign(SeedBudget(start=4, seeds=3), workers=2))
    assert [verdict.seed for verdict in verdicts] == [4, 5, 6]
    for verdict in verdicts:
        alone = run_seed(verdict.seed)
        assert (verdict.violation, verdict.lives, verdict.acks, verdict.virtual_ms) == (
            alone.violation,
            alone.lives,
            alone.acks,
            alone.virtual_ms,
        )


@pytest.mark.parametrize("count", [0, 1, 25])
def test_no_seed_is_left_out_or_run_twice(count: int) -> None:
    halves = over_seeds(SeedBudget(start=100, seeds=count), float, module="builtins", workers=2)
    assert sorted(halves) == [float(seed) for seed in range(100, 100 + count)]


def test_seeds_are_run_from_the_first_on_until_time_is_up() -> None:
    seeds = list(over_seeds(SeedBudget(start=7, seconds=1.0), float, module="builtins", workers=1))
    assert seeds == [float(seed) for seed in range(7, 7 + len(seeds))]
    assert seeds


def test_a_campaign_ends_with_its_seeds_when_there_is_time_left() -> None:
    budget = SeedBudget(seeds=3, seconds=600.0)
    assert list(over_seeds(budget, float, module="builtins", workers=1)) == [0.0, 1.0, 2.0]


def test_workers_end_with_a_campaign_that_is_killed() -> None:
    command = [str(Path(sys.executable).with_name("penstock")), "sim", "run", "--seeds", "100000"]
    process = subprocess.Popen([*command, "--workers", "2"], stdout=subprocess.DEVNULL)
    try:
        workers = await_workers(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + WAIT_S_MAX
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def await_workers(pid: int) -> list[int]:
    """The children of its server process, once there are two."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        workers = [worker for child in children(pid) for worker in children(child)]
        if len(workers) == 2:
            return workers
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def is_running(pid: int) -> bool:
    """Who has ended may still have an entry, until somebody asks how."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
