"""A seed is one run, in whatever process: nothing comes from hashes, addresses or real time."""

import os
import subprocess
import sys
from pathlib import Path

SEEDS = (1, 5, 11)
PROGRAM = f"""
from penstock.sim.run import run_seed
for seed in {SEEDS}:
    outcome = run_seed(seed)
    print(seed, outcome.trace_hash, outcome.acks, outcome.virtual_ms)
"""


MANY_NODES = f"""
from rig.nodes_under_faults import simulate
for seed in {SEEDS}:
    run = simulate(seed)
    print(seed, run.trace_hash, run.figures.acked, run.figures.virtual_ms)
"""
TESTS = Path(__file__).parent.parent


def traces(hash_seed: str, program: str = PROGRAM) -> list[str]:
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    return ended.stdout.splitlines()


def test_a_seed_gives_one_trace_in_every_process() -> None:
    told = traces("1")
    assert len(told) == len(SEEDS)
    assert told == traces("2")


def test_a_seed_of_many_nodes_under_faults_gives_one_trace_in_every_process() -> None:
    told = traces("1", MANY_NODES)
    assert len(told) == len(SEEDS)
    assert told == traces("2", MANY_NODES)
