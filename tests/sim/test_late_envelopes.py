"""A request that was forwarded to a controller in one epoch is not done in another."""

import asyncio

import pytest

from penstock.broker.controller.active_controller import ANY_ADDRESS, NOBODY
from penstock.client.network.channel import open_channel
from penstock.model.error import ErrorCode
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import CONTROLLER_PORT, configs, format_nodes
from penstock.sim.entropy import stream
from penstock.wire.header import encode_request
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.world.tasks import TaskGroup
from rig.machines import Machines, address

TOPIC = "orders"
NOT_SAID = -1


def forwarded(*, controller_epoch: int) -> EnvelopeRequest:
    create = CreateTopicsRequest(
        topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
    )
    parts = encode_request(create, version=create.VERSIONS.max, correlation_id=0, client_id=None)
    return EnvelopeRequest(
        request_data=b"".join(parts)[4:],
        request_principal=NOBODY,
        client_host_address=ANY_ADDRESS,
        controller_epoch=controller_epoch,
    )


@pytest.mark.parametrize(
    ("epochs_ago", "done"), [(0, True), (1, False), (None, True)], ids=["now", "late", "not said"]
)
def test_an_envelope_is_for_a_controller_in_one_epoch(epochs_ago: int | None, done: bool) -> None:
    async def scenario(machines: Machines) -> None:
        laid_out = configs(3, {})
        format_nodes(machines, laid_out, stream(1, "formatting"))
        for host, config in laid_out.items():
            machines.start_node(host, config)
        async with asyncio.timeout(60):
            for node in machines.nodes.values():
                await node.up.wait()
        leader = Inspection(machines.nodes).leader()
        assert leader is not None
        parts = machines.nodes[leader].parts
        assert parts is not None
        epoch = NOT_SAID if epochs_ago is None else parts.local.quorum.replica.epoch - epochs_ago
        async with TaskGroup() as tasks:
            channel = await open_channel(
                machines.world("forwarder").network,
                address(leader, CONTROLLER_PORT),
                client_id="forwarder",
                tasks=tasks,
                timeout_ms=5_000,
            )
            reply = await channel.ask(
                forwarded(controller_epoch=epoch), EnvelopeResponse, timeout_ms=5_000
            )
            channel.close()
        refused = reply.error_code == ErrorCode.NOT_CONTROLLER
        assert refused is not done
        assert (TOPIC in parts.local.image.topics_by_name) is done

    Machines().run(scenario)
