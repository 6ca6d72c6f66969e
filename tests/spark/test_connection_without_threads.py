"""Brokers are reached when a program has ended, for what its queries have left to clear up."""

import subprocess
import sys

from penstock.testing import Broker

PROGRAM = """
import sys, threading
from penstock.spark.connection import connect, run
from penstock.spark.options import ConnectionOptions

async def reach():
    async with connect(ConnectionOptions(bootstrap=sys.argv[1])) as cluster:
        await cluster.any_channel()

def after_the_program():
    threading.main_thread().join()
    run(reach())
    print("reached")

threading.Thread(target=after_the_program).start()
"""


def test_a_broker_is_reached_by_name_after_the_program_has_ended(penstock: Broker) -> None:
    port = penstock.bootstrap.rpartition(":")[2]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"localhost:{port}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.stdout == "reached\n", ended.stderr
