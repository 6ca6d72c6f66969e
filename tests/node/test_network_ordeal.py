"""A leader that the network cuts off acks nothing with acks of all, and nothing acked is lost.

The nodes are in network namespaces that the program makes, or have relays between them, which is
what it does where namespaces are not allowed; `bench/network_ordeal.py` has more.
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
    assert_nothing_is_lost("--cuts", cuts, "--logs", str(tmp_path))


def test_network_partition_by_relays(tmp_path: Path) -> None:
    """The same of nodes on one network, by each kind of cut that leaves the clients connected:
    relays cannot cut them off.
    """
    cuts = "nodes,outwards,inwards"
    # The producer of Java takes long to start, and is in the ordeal of namespaces.
    assert_nothing_is_lost(
        "--network", "relays", "--no-java", "--cuts", cuts, "--logs", str(tmp_path)
    )


def assert_nothing_is_lost(*options: str) -> None:
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    program = [sys.executable, "-m", "rig.failover.network_run", "--times", "1", "--seed", "14"]
    ended = subprocess.run(
        [*program, *options],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
