"""A client of Spark Connect reads and writes topics, by the program of the guide."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.clients.confluent import ConfluentClient
from rig.clients.interface import Message
from rig.connect_server import ConnectServer
from rig.serve import ServedNode
from rig.sink_output import committed_records
from rig.spark_program import first_steps, run_program

# As the definitions of a pipeline are run: they may not change settings.
DEFINITIONS = """
from pyspark.pipelines.block_session_mutations import block_session_mutations

pushdown = "spark.sql.python.filterPushdown.enabled"
with block_session_mutations():
    penstock.spark.register(spark)
    print("REGISTERED")
spark.conf.set(pushdown, "false")
try:
    with block_session_mutations():
        penstock.spark.register(spark)
except Exception as error:
    print("REFUSED", error)
spark.conf.set(pushdown, "true")
"""
BATCHES = """
def write(frame, batch_id):
    penstock.spark.batch_writer(frame, batch_id).options(topic="nowhere", **brokers).save()


again = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
again.option("checkpointLocation", {checkpoint!r}).start().awaitTermination()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_client_of_connect_takes_the_first_steps_and_is_told_what_it_cannot_have(
    connect_server: ConnectServer,
    node: ServedNode,
    confluent: ConfluentClient,
    topic: Callable[..., str],
    folder: Path,
) -> None:
    orders, invoices = topic(partitions=3), topic(partitions=3)
    confluent.produce(orders, [Message(key=b"ann", value=b"3"), Message(key=b"bob", value=b"5")])
    steps = first_steps(
        bootstrap=node.bootstrap, orders=orders, invoices=invoices, folder=folder
    ).replace("session()", f"session(master={connect_server.remote!r})")
    batches = BATCHES.format(checkpoint=str(folder / "batches"))
    program = folder / "job.py"
    program.write_text(steps + DEFINITIONS + batches, "utf-8")
    ended = run_program([sys.executable, str(program)], folder=folder)
    assert re.search(r"bob\s*\|\s*5", ended.stdout), ended.stderr
    written = committed_records(node.bootstrap, invoices)
    assert sorted((one.key, one.value) for one in written) == [
        (b"ann", b"pay 3"),
        (b"bob", b"pay 5"),
    ]
    assert "REGISTERED\nREFUSED definitions of a pipeline can't change settings" in ended.stdout
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("penstock: batch_writer can't tell which query calls it"), ended.stderr
