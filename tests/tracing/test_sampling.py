"""Every node traces the same batches, about as many as was asked for."""

import os
import subprocess
import sys

import pytest

from penstock.tracing.sampling import Sampling

TOPICS = [bytes(range(one, one + 16)) for one in range(4)]


@pytest.mark.parametrize("fraction", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("step", [1, 2, 3, 10, 16, 100, 1000, 1 << 20])
def test_about_the_asked_part_is_sampled_whatever_the_size_of_batches(
    fraction: float, step: int
) -> None:
    sampling = Sampling(fraction)
    count = 40_000
    for topic in TOPICS:
        for partition in (0, 1, 99):
            sampled = sum(
                sampling.is_sampled(topic, partition, number * step) for number in range(count)
            )
            # Far more than what a fair coin would be off.
            assert abs(sampled - count * fraction) < 10 * (count * fraction) ** 0.5


def test_partitions_are_sampled_apart() -> None:
    sampling = Sampling(0.1)
    first_batches = [sampling.is_sampled(TOPICS[0], number, 0) for number in range(10_000)]
    assert 800 < sum(first_batches) < 1_200


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, False), (1.0, True)])
def test_none_and_all_are_none_and_all(fraction: float, expected: bool) -> None:
    sampling = Sampling(fraction)
    assert {
        sampling.is_sampled(topic, partition, offset)
        for topic in TOPICS
        for partition in range(10)
        for offset in (*range(1_000), 2**62, 2**63 - 1)
    } == {expected}


ASKED = """
from penstock.tracing.sampling import Sampling
sampling = Sampling(0.2)
print([offset for offset in range(200) if sampling.is_sampled(bytes(range(16)), 3, offset)])
"""


def test_another_process_samples_the_same_batches() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", ASKED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    [same] = told
    assert len(same) > 20
