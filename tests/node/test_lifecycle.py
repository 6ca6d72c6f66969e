"""A node starts, tells why it cannot, stops cleanly, and ends when something is wrong."""

import asyncio
import errno
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.errors import CorruptCheckpoint
from penstock.metadata.records import UnreadableMetadata
from penstock.model.identity import NodeId
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.node.build import build
from penstock.node.config import NodeConfig
from penstock.node.directory_owners import ForeignDirectory
from penstock.node.lifecycle import Node
from penstock.node.start_checks import LostMetadata, NestedNode
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.errors import DiskError, NetworkError
from penstock.world.ports import Address, Listener
from penstock.world.real import real_world
from penstock.world.tcp import TcpNetwork
from rig.raw_serving import RawClient
from rig.sasl import sasl_listener


def config(data: Path, *, node_id: int = 1, **settings: str) -> NodeConfig:
    values = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    return NodeConfig(
        node_id=NodeId(node_id),
        data_directory=str(data),
        settings=parse_broker(values),
        process_id=4711,
    )


async def started(given: NodeConfig) -> Node:
    node = build(real_world(inline=True), given)
    await node.start()
    return node


def open_descriptors(below: Path) -> list[str]:
    paths = []
    for name in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError as error:
            assert error.errno == errno.ENOENT
    return [path for path in paths if path.startswith(str(below))]


def test_clean_stop_leaves_the_marker_and_holds_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        directory = tmp_path / "node-1"
        assert (directory / "node.pid").read_text() == "4711\n"
        await node.stop()
        assert await node.failed() is None
        assert (directory / ".kafka_cleanshutdown").exists()
        assert not (directory / "node.pid").exists()
        assert open_descriptors(tmp_path) == []
        await node.stop()  # harmless

    asyncio.run(scenario())


def test_address_is_closed_after_the_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        (address,) = node.addresses
        stream = await TcpNetwork().connect(address)
        await node.stop()
        assert await stream.receive_into(memoryview(bytearray(1))) == 0
        stream.close()
        with pytest.raises(NetworkError):
            await TcpNetwork().connect(address)

    asyncio.run(scenario())


def test_cluster_keeps_its_id_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):
            await (await started(config(tmp_path))).stop()

    def identity() -> bytes:
        return (tmp_path / "node-1" / "meta.properties").read_bytes()

    asyncio.run(scenario())
    before = identity()
    asyncio.run(scenario())
    assert identity() == before


def test_second_node_on_one_directory_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        with pytest.raises(DiskError, match="locked by another"):
            await started(config(tmp_path))
        await node.stop()

    asyncio.run(scenario())


def test_directory_of_another_node_is_refused_and_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        logs = str(tmp_path / "logs")
        await (await started(config(tmp_path, log_dirs=logs))).stop()
        with pytest.raises(ForeignDirectory, match="belongs to node 1, not to 2"):
            await started(config(tmp_path, node_id=2, log_dirs=logs))
        assert open_descriptors(tmp_path) == []
        assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
        await (await started(config(tmp_path, log_dirs=logs))).stop()

    asyncio.run(scenario())


def test_torn_identity_is_told_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        await (await started(config(tmp_path))).stop()
        file = tmp_path / "node-1" / "meta.properties"
        whole = file.read_bytes()
        file.write_bytes(whole[: whole.index(b"directory.id")])
        with pytest.raises(CorruptCheckpoint, match=r"directory\.id missing: the file is torn"):
            await started(config(tmp_path))
        assert (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()
        file.write_bytes(whole)
        await (await started(config(tmp_path))).stop()

    asyncio.run(scenario())


def test_copy_of_a_directory_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        logs, copy = tmp_path / "logs", tmp_path / "copy"
        await (await started(config(tmp_path, log_dirs=str(logs)))).stop()
        shutil.copytree(logs, copy)
        with pytest.raises(ForeignDirectory, match="have the same directory id"):
            await started(config(tmp_path, log_dirs=f"{logs},{copy}"))
        assert (logs / ".kafka_cleanshutdown").exists()

    asyncio.run(scenario())


def test_port_in_use_is_told_and_the_directory_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        taken = await listening()
        listeners = f"PLAINTEXT://{taken.address}"
        with pytest.raises(NetworkError, match="cannot listen"):
            await started(config(tmp_path, listeners=listeners))
        taken.close()
        assert open_descriptors(tmp_path) == []
        node = await started(config(tmp_path, listeners=listeners))
        assert str(node.addresses[0]) == str(taken.address)
        await node.stop()

    asyncio.run(scenario())


def test_port_in_use_leaves_directories_as_they_were(tmp_path: Path) -> None:
    async def scenario() -> None:
        taken = await listening()
        listeners = f"PLAINTEXT://127.0.0.1:0,OTHER://{taken.address}"
        two = {
            "listeners": listeners,
            "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        }
        with pytest.raises(NetworkError, match="cannot listen"):
            await started(config(tmp_path / "new", **two))
        assert not (tmp_path / "new").exists(), "something was formatted"
        await (await started(config(tmp_path / "used"))).stop()
        with pytest.raises(NetworkError, match="cannot listen"):
            await started(config(tmp_path / "used", **two))
        assert (tmp_path / "used" / "node-1" / ".kafka_cleanshutdown").exists()
        taken.close()

    asyncio.run(scenario())


def test_connections_are_refused_while_directories_are_opened(tmp_path: Path) -> None:
    class Probe(RealDisk):
        """Tries to connect to the node whenever it writes a small file."""

        def __init__(self, address: Address) -> None:
            super().__init__()
            self.address = address
            self.outcomes: dict[str, int] = {}

        def write_whole(self, path: str, data: bytes) -> None:
            with socket.socket() as client:
                outcome = client.connect_ex((self.address.host, self.address.port))
                self.outcomes[Path(path).name] = outcome
            super().write_whole(path, data)

    async def scenario() -> None:
        free = await listening()
        free.close()
        disk = Probe(free.address)
        node = build(
            replace(real_world(inline=True), disk=disk),
            config(tmp_path, listeners=f"PLAINTEXT://{free.address}"),
        )
        await node.start()
        assert disk.outcomes["meta.properties"] == errno.ECONNREFUSED
        await node.stop()

    asyncio.run(scenario())


async def listening() -> Listener:
    """A free address of another's, taken."""
    listener = await TcpNetwork().bind(Address(host="127.0.0.1", port=0))
    listener.listen(lambda stream: stream.close())
    return listener


@pytest.mark.parametrize("sign", ["meta.properties", ".lock", "orders-0/partition.metadata"])
def test_no_node_is_started_inside_a_log_directory(tmp_path: Path, sign: str) -> None:
    async def scenario() -> None:
        logs = tmp_path / "logs"
        (logs / sign).parent.mkdir(parents=True)
        (logs / sign).touch()
        with pytest.raises(NestedNode, match=rf"logs is a log directory.*set log\.dirs={logs}"):
            await started(config(logs))
        assert not (logs / "node-1").exists()

    asyncio.run(scenario())


def test_directory_of_one_node_is_refused_as_that_of_all_and_the_right_one_named(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        with pytest.raises(NestedNode, match=rf"pass {tmp_path} instead$"):
            await started(config(tmp_path / "node-1"))
        with pytest.raises(NestedNode, match=rf"pass {tmp_path} instead with node\.id=1$"):
            await started(config(tmp_path / "node-1", node_id=2))
        await node.stop()
        await (await started(config(tmp_path))).stop()
        # A second node has its directory beside that of the first.
        await (await started(config(tmp_path, node_id=2))).stop()

    asyncio.run(scenario())


def test_directory_of_all_nodes_is_refused_as_a_log_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        data = tmp_path / "data"
        await (await started(config(data))).stop()
        with pytest.raises(NestedNode, match=rf"set log\.dirs={data}/node-1, or start with --data"):
            await started(config(tmp_path / "other", log_dirs=str(data)))
        assert sorted(path.name for path in data.iterdir()) == ["node-1"]
        await (await started(config(tmp_path / "other", log_dirs=str(data / "node-1")))).stop()

    asyncio.run(scenario())


def test_with_log_dirs_nothing_is_put_into_the_data_directory(tmp_path: Path) -> None:
    async def scenario() -> None:
        logs = tmp_path / "logs"
        node = await started(config(tmp_path / "data", log_dirs=str(logs)))
        assert (logs / "node.pid").read_text() == "4711\n"
        await node.stop()
        assert not (logs / "node.pid").exists()
        assert not (tmp_path / "data").exists()

    asyncio.run(scenario())


def test_bug_stops_the_node_and_leaves_no_marker_of_a_clean_stop(tmp_path: Path) -> None:
    class Bug:
        """A world whose clock breaks its promise once the node runs."""

        def __init__(self) -> None:
            self.real = RealClock()
            self.broken = False

        def now_ms(self) -> int:
            return self.real.now_ms()

        def monotonic_ms(self) -> int:
            assert not self.broken, "time went backwards"
            return self.real.monotonic_ms()

        def monotonic_us(self) -> int:
            return self.monotonic_ms() * 1000

    async def scenario() -> None:
        clock = Bug()
        node = build(replace(real_world(inline=True), clock=clock), config(tmp_path))
        await node.start()
        clock.broken = True
        stream = await TcpNetwork().connect(node.addresses[0])
        failure = await node.failed()
        assert isinstance(failure, AssertionError)
        assert "time went backwards" in str(failure)
        assert not (tmp_path / "node-1" / ".kafka_cleanshutdown").exists()
        assert open_descriptors(tmp_path) == []
        stream.close()
        await node.stop()
        await (await started(config(tmp_path))).stop()

    asyncio.run(scenario())


def test_bug_closes_listeners_and_connections_at_once(tmp_path: Path) -> None:
    class OneBug:
        """A clock that is wrong once; whoever looks at it later sees nothing of that."""

        def __init__(self) -> None:
            self.real = RealClock()
            self.looks_left = -1

        def now_ms(self) -> int:
            return self.real.now_ms()

        def monotonic_ms(self) -> int:
            self.looks_left -= 1
            assert self.looks_left != 0, "time went backwards"
            return self.real.monotonic_ms()

        def monotonic_us(self) -> int:
            return self.monotonic_ms() * 1000

    async def scenario() -> None:
        clock = OneBug()
        node = build(replace(real_world(inline=True), clock=clock), config(tmp_path))
        await node.start()
        (address,) = node.addresses
        clients: list[socket.socket] = []
        ended = asyncio.ensure_future(node.failed())
        try:
            # One comes at every turn of the loop, so some come while the node ends.
            while not ended.done() and len(clients) < 200:
                clients.append(socket.create_connection((address.host, address.port)))
                if len(clients) == 10:
                    clock.looks_left = 5
                await asyncio.sleep(0)
        except ConnectionRefusedError:
            pass
        assert isinstance(await asyncio.wait_for(ended, 60), AssertionError)
        for client in clients:
            client.settimeout(60)
            assert hears_the_end(client)
            client.close()

    asyncio.run(scenario())


def hears_the_end(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_replicas_of_internal_topics_may_be_those_of_a_larger_cluster(tmp_path: Path) -> None:
    given = {
        "offsets_topic_replication_factor": "3",
        "transaction_state_log_replication_factor": "3",
        "default_replication_factor": "1",
    }
    assert config(tmp_path, **given).settings.default_replication_factor == 1


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "authorizer_class_name",
            "org.apache.kafka.metadata.authorizer.X",
            "authorizer.class.name",
        ),
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms"),
        ("create_topic_policy_class_name", "org.example.Policy", "create.topic.policy.class.name"),
    ],
)
def test_a_setting_that_is_to_protect_the_node_and_cannot_keeps_it_from_starting(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    with pytest.raises(InvalidSetting, match=words):
        config(tmp_path, **{name: value})


@pytest.mark.parametrize("url", ["https://[half", "keys.json", "ftp://h/keys"])
def test_what_is_no_address_of_keys_keeps_a_node_from_starting(tmp_path: Path, url: str) -> None:
    given = sasl_listener(
        "OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=url,
        sasl_oauthbearer_expected_issuer="i",
        sasl_oauthbearer_expected_audience="a",
    )
    with pytest.raises(InvalidSetting, match=r"jwks\.endpoint\.url: It must be file:///FILE or"):
        NodeConfig(node_id=NodeId(1), data_directory=str(tmp_path), settings=parse_broker(given))


def test_listener_on_every_interface_advertises_the_host_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path, listeners="PLAINTEXT://:0"))
        (address,) = node.addresses
        assert address.host == TcpNetwork().host_name()
        assert address.port != 0
        await node.stop()

    asyncio.run(scenario())


def test_advertised_listener_is_told_as_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(
            config(tmp_path, advertised_listeners="PLAINTEXT://kafka.example:19092")
        )
        assert node.addresses == (Address(host="kafka.example", port=19092),)
        await node.stop()

    asyncio.run(scenario())


async def create_topic(node: Node) -> None:
    stream = await TcpNetwork().connect(node.addresses[0])
    client = RawClient(stream)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 1, version=7)
    assert await client.frame() is not None
    stream.close()


def metadata_segment(data: Path) -> Path:
    (segment,) = (data / "node-1" / "__cluster_metadata-0").glob("*.log")
    return segment


def test_metadata_that_changed_on_disk_is_refused_even_after_a_clean_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        await create_topic(node)
        await node.stop()
        segment = metadata_segment(tmp_path)
        stored = segment.read_bytes()
        segment.write_bytes(stored.replace(b"orders", b"0rders"))
        with pytest.raises(UnreadableMetadata, match=r"__cluster_metadata-0.*checksum"):
            await started(config(tmp_path))
        segment.write_bytes(stored)
        await (await started(config(tmp_path))).stop()

    asyncio.run(scenario())


def test_partitions_whose_metadata_is_lost_are_left_alone_and_the_start_refused(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        node = await started(config(tmp_path))
        await create_topic(node)
        await node.stop()
        shutil.rmtree(metadata_segment(tmp_path).parent)
        with pytest.raises(LostMetadata, match="orders-0"):
            await started(config(tmp_path))
        assert (tmp_path / "node-1" / "orders-0").is_dir()

    asyncio.run(scenario())
