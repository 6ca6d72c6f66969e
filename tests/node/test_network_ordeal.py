"""A leader that the network cuts off acks nothing with acks of all, and nothing acked is lost.

The nodes are in network namespaces that the program makes; `bench/network_ordeal.py` has more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.failover.namespaces import refusal

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
SECONDS_MAX = 540


@pytest.mark.parametrize("cuts", ["nodes,alone", "outwards,inwards", "answers"])
def test_network_partition(cuts: str, tmp_path: Path) -> None:
    """A leader that is cut off acks nothing, and nothing acked is lost."""
    reason = refusal()
    if reason is not None:
        pytest.skip(f"needs network namespaces: {reason}")
    options = ["--times", "1", "--cuts", cuts, "--seed", "14", "--logs", str(tmp_path)]
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        [sys.executable, "-m", "rig.failover.network_run", *options],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
