"""A node that waits for the quorum says for whom, and for what."""

import asyncio

import pytest

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.membership import Membership, NotRegistered
from penstock.broker.controller.quorum_driver import QuorumMember
from penstock.broker.controller.registration import registration_of
from penstock.log.opening import open_log
from penstock.metadata.image.broker import Endpoint
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, TopicPartition
from penstock.model.settings.topic import TopicSettings
from penstock.raft.times import Times
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.sim.cluster.layout import configs, format_nodes
from penstock.sim.entropy import stream
from penstock.world.ports import Address
from rig.control import CLUSTER_ID, NODE, Control, run_with
from rig.machines import Machines
from rig.memory_disk import MemoryDisk

TWO = NodeId(2)
VOTERS = "1@controller:9093"


def replica_that_hears_nothing(control: Control) -> LocalController:
    """That of another node. Nobody keeps it running, so that it never fetches."""
    disk = MemoryDisk()
    directory = f"/data/{METADATA_TOPIC}-0"
    disk.make_directory(directory)
    local = LocalController(
        log=open_log(
            disk=disk,
            directory=directory,
            partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            settings=TopicSettings(),
            now_ms=0,
        ),
        world=control.world,
        member=QuorumMember(
            key=ReplicaKey(TWO, b"e" * 16),
            cluster_id=CLUSTER_ID,
            voters=VoterSet([ReplicaKey(NODE, None)]),
            endpoints=(),
            times=Times(),
            request_timeout_ms=0,
            addresses={NODE: Address(host="controller", port=9093)},
        ),
        settings=control.settings,
        publish=lambda delta, image: None,
    )
    local.open()
    return local


def membership_of(control: Control, *, timeout_ms: int) -> Membership:
    return Membership(
        controller=control.controller,
        local=replica_that_hears_nothing(control),
        node_id=TWO,
        heartbeat_interval_ms=100,
        registration_timeout_ms=timeout_ms,
        session_timeout_ms=timeout_ms,
        clock=control.world.clock,
        lease=BrokerLease(timeout_ms=timeout_ms),
    )


REGISTRATION = registration_of(
    node_id=TWO,
    cluster_id=CLUSTER_ID,
    incarnation=b"i" * 16,
    rack=None,
    endpoints=(Endpoint(listener="PLAINTEXT", host="localhost", port=9093),),
    directories=(b"another-director",),
)


def test_a_broker_whose_metadata_does_not_come_gives_up_and_says_what_it_waited_for() -> None:
    async def scenario(control: Control) -> None:
        membership = membership_of(control, timeout_ms=100)
        epoch = await membership.register(REGISTRATION)
        with pytest.raises(NotRegistered) as given_up:
            await membership.catch_up()
        assert str(given_up.value) == (
            f"the metadata has come to offset 0, and this broker's registration is at {epoch};"
            f" waiting for records from a leader of {VOTERS}: gave up after 0.1 s"
        )

    run_with(MemoryDisk(), scenario)


def test_a_broker_waits_for_room_on_the_disk_of_the_controller() -> None:
    disk = MemoryDisk()

    async def scenario(control: Control) -> None:
        disk.faults.full = True
        with pytest.raises(NotRegistered) as given_up:
            await membership_of(control, timeout_ms=1).register(REGISTRATION)
        assert str(given_up.value) == (
            "the active controller cannot store the registration (disk full?):"
            " gave up after 0.001 s"
        )
        registering = asyncio.ensure_future(
            membership_of(control, timeout_ms=60_000).register(REGISTRATION)
        )
        await asyncio.wait([registering], timeout=0.01)
        assert not registering.done()
        disk.faults.full = False
        assert await registering == control.image.brokers[TWO].epoch

    run_with(disk, scenario)


def test_a_controller_without_a_broker_says_whom_it_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(machines: Machines) -> None:
        roles = {"process.roles": "controller", "listeners": "CONTROLLER://node-1:9093"}
        lonely = {"node-1": configs(3, roles)["node-1"]}
        format_nodes(machines, lonely, stream(1, "formatting"))
        node = machines.start_node("node-1", lonely["node-1"])
        async with asyncio.timeout(10):
            await node.up.wait()
        await asyncio.sleep(12)

    Machines().run(scenario)
    said = [one.getMessage() for one in caplog.records if "registered=false" in one.getMessage()]
    assert set(said) == {
        "controller=1 registered=false no controller is active; waiting for a majority of"
        " 1@node-1:9093, 2@node-2:9093, 3@node-3:9093"
    }
    assert len(said) == 2
