"""A seed is one run, in whatever process: nothing comes from hashes, addresses or real time."""

import os
import subprocess
import sys

SEEDS = (1, 5, 11)
PROGRAM = f"""
from penstock.sim.run import run_seed
for seed in {SEEDS}:
    outcome = run_seed(seed)
    print(seed, outcome.trace_hash, outcome.acks, outcome.virtual_ms)
"""


def traces(hash_seed: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
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
