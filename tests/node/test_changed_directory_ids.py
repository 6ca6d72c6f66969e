"""A directory id that is not the one that the cluster knows is said in one line."""

import pytest

from penstock.broker.controller.registration import registration_of
from penstock.metadata.bootstrap_files import VOTERS_FILE, voters_checkpoint
from penstock.metadata.image.broker import Endpoint
from penstock.model.identity import NodeId, id_text
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.cluster_node import cluster_node
from penstock.model.settings.listener import directory_voters
from penstock.node.quorum import quorum_place
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.world.ports import Address
from rig.control import CLUSTER_ID, Control, run_with
from rig.memory_disk import MemoryDisk

VOTERS = directory_voters("1@a:9093:JEXY6aqzQY-32P5TStzaFg,2@b:9093:MvDxzVmcRsaTz33bUuRU6A")
ANOTHER = b"another-director"
TWO = NodeId(2)
FIRST = Address(host="localhost", port=1)
SETTINGS = {
    "node.id": "1",
    "process.roles": "controller",
    "listeners": "CONTROLLER://a:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "a:9093",
}


def started_with(directory_id: bytes) -> bool:
    """Whether node 1 votes with it."""
    disk = MemoryDisk()
    disk.make_directory("/data/__cluster_metadata-0")
    stored = voters_checkpoint(VOTERS, listener="CONTROLLER", now_ms=0)
    disk.write_whole(f"/data/__cluster_metadata-0/{VOTERS_FILE}", stored)
    member = quorum_place(
        cluster_node(parse_broker(SETTINGS), NodeId(1)),
        disk=disk,
        metadata_directory="/data",
        directory_id=directory_id,
        cluster_id=CLUSTER_ID,
        endpoints=(),
    ).member
    return member.voters.includes(member.key)


def test_a_voter_with_another_directory_says_that_it_has_no_vote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert started_with(VOTERS[0].directory_id)
    assert caplog.text == ""
    assert not started_with(ANOTHER)
    [line] = caplog.messages
    assert line == (
        f"quorum node=1 votes=false directory_id={id_text(ANOTHER)} the voters name directory"
        " JEXY6aqzQY-32P5TStzaFg for it: its disk was replaced, or directory.id was changed in"
        " meta.properties"
    )


@pytest.mark.parametrize(
    ("later", "missed"),
    [
        ((b"first-directory-", b"other-directory-"), False),
        ((b"other-directory-",), True),
    ],
)
def test_a_broker_that_misses_a_directory_is_named(
    later: tuple[bytes, ...], missed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def registration(
        incarnation: bytes, directories: tuple[bytes, ...]
    ) -> BrokerRegistrationRequest:
        return registration_of(
            node_id=TWO,
            cluster_id=CLUSTER_ID,
            incarnation=incarnation,
            rack=None,
            endpoints=(Endpoint(listener="PLAINTEXT", host="localhost", port=9093),),
            directories=directories,
        )

    async def scenario(control: Control) -> None:
        controller = control.controller
        await controller.ask(registration(b"1" * 16, (b"first-directory-",)), connection=FIRST)
        controller.watch.connection_lost(FIRST)
        await controller.ask(registration(b"2" * 16, later), connection="second")

    run_with(MemoryDisk(), scenario)
    said = [line for line in caplog.messages if line.startswith("broker=2 registers without")]
    assert len(said) == missed
    assert all(id_text(b"first-directory-") in line for line in said)
