"""A broker that is gone is fenced, though the controller's disk was full when its session ended."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.broker.controller.registration import registration_of
from penstock.metadata.image.broker import Endpoint
from penstock.model.identity import NodeId
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from rig.control import CLUSTER_ID, Control, run_with
from rig.memory_disk import MemoryDisk

TWO = NodeId(2)
WAIT_S = 30


async def join(control: Control) -> None:
    """Another broker, which sends one heartbeat and is silent then."""
    registered = await control.controller.ask(
        registration_of(
            node_id=TWO,
            cluster_id=CLUSTER_ID,
            incarnation=b"i" * 16,
            rack=None,
            endpoints=(Endpoint(listener="PLAINTEXT", host="localhost", port=9093),),
            directories=(b"another-director",),
        ),
        connection="of broker 2",
    )
    epoch = registered.broker_epoch
    await control.controller.ask(
        BrokerHeartbeatRequest(broker_id=TWO, broker_epoch=epoch, current_metadata_offset=epoch),
        connection="of broker 2",
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - neither the log nor an image signals anything
            await asyncio.sleep(0.01)


def test_a_fencing_that_could_not_be_stored_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> None:
        await join(control)
        assert not control.image.brokers[TWO].fenced
        disk.faults.full = True
        await until(lambda: "broker gone broker=2" in caplog.text)
        assert not control.image.brokers[TWO].fenced
        disk.faults.full = False
        await until(lambda: control.image.brokers[TWO].fenced)

    run_with(disk, scenario, broker_session_timeout_ms="200")
