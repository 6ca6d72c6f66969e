"""`penstock consume` of a partition whose only replica is lost while it is read."""

import os
import subprocess
import sys

from penstock.testing import running_broker
from rig.reassigning import create_on

IMPATIENT = (
    "from penstock.cli import consume; from penstock.cli.main import main;"
    " consume.PATIENCE_MS = 2_000; main()"
)


def test_an_end_that_cannot_be_reached_any_more_is_told() -> None:
    with running_broker(nodes=3) as cluster:
        create_on(cluster.nodes[1], "orders", [[3]], {"min.insync.replicas": "1"})
        for _ in range(80):  # more than a client fetches at once
            cluster.produce("orders", [os.urandom(100_000).hex()])
        consuming = subprocess.Popen(
            [sys.executable, "-c", IMPATIENT, "consume", "orders"],
            env={**os.environ, "PENSTOCK_BOOTSTRAP": cluster.nodes[1]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert consuming.stdout is not None
            consuming.stdout.read(1)  # it waits now until the rest of the pipe is read
            cluster.kill(3)
            _, err = consuming.communicate(timeout=90)
        finally:
            consuming.kill()
            consuming.wait()
    assert consuming.returncode == 1
    assert err.startswith(b"penstock: orders-0: nothing could be read at offset ")
    assert err.endswith(b" for 2000 ms, though its end was at 80: has it no leader?\n")
