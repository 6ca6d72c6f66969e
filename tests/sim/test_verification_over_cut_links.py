"""The link between a partition's leader and a transaction's coordinator is cut, and no other.

Neither is fenced, so nothing moves. A batch that begins a transaction is refused with an error that
producers try again after: within the time-out of its own request, and at once when the leader knows
already that the coordinator does not answer. It is accepted as soon as the link is whole again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.channel import Channel, open_channel
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError
from penstock.groups.partitioning import partition_of
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.cluster.inspection import Inspection
from penstock.sim.cluster.layout import address, configs, format_nodes, machine
from penstock.sim.entropy import stream
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.world.tasks import TaskGroup
from rig.machines import Machines
from rig.produced import produced

NODES = 3
WAIT_S = 60
PATIENT_MS = 30_000  # what Java's producer gives a request
VERSION = 12
SETTINGS = {"transaction.state.log.num.partitions": "3", "min.insync.replicas": "2"}


@dataclass(kw_only=True)
class Answer:
    code: ErrorCode
    took_ms: int


class Scene:
    """A leader and a coordinator on two machines; the active controller is on the third."""

    def __init__(self, machines: Machines, tasks: TaskGroup) -> None:
        self.machines = machines
        self._tasks = tasks
        self.leader = ""
        self.coordinator = ""
        self._index = 0
        self._key = ""
        self._producer = (0, 0)
        self._channel: Channel | None = None

    async def begin(self) -> None:
        laid_out = configs(NODES, SETTINGS)
        format_nodes(self.machines, laid_out, stream(1, "formatting"))
        for host, config in laid_out.items():
            self.machines.start_node(host, config)
        async with asyncio.timeout(WAIT_S):
            for node in self.machines.nodes.values():
                await node.up.wait()
            await self._create()
        await self._choose()

    async def produce(self, *, timeout_ms: int) -> Answer:
        """The first batch of the transaction, to its partition's leader."""
        if self._channel is None:
            self._channel = await self._open(self.leader)
        producer_id, epoch = self._producer
        records = produced(1, producer_id=producer_id, epoch=epoch, sequence=0, transactional=True)
        data = PartitionProduceData(index=self._index, records=records)
        request = ProduceRequest(
            transactional_id=self._key,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name="orders", partition_data=[data])],
        )
        clock = self.machines.world("client").clock
        sent_ms = clock.monotonic_ms()
        reply = await self._channel.ask(
            request, ProduceResponse, timeout_ms=WAIT_S * 1000, version=VERSION
        )
        [topic] = reply.responses
        [partition] = topic.partition_responses
        took_ms = clock.monotonic_ms() - sent_ms
        return Answer(code=ErrorCode(partition.error_code), took_ms=took_ms)

    def cut(self) -> Callable[[], None]:
        """Returns what joins the two again."""
        pair = (self.leader, self.coordinator)
        self.machines.wire.part([pair[0]], [pair[1]])
        return lambda: self.machines.wire.join([pair[0]], [pair[1]])

    async def _create(self) -> None:
        async with self.machines.client("client", [address(machine(1))]) as cluster:
            new = NewTopic(name="orders", partitions=NODES, replicas=1)
            while True:
                try:
                    first_refusal((await Admin(cluster).create_topics([new])).values())
                    await Coordinators(cluster, kind=CoordinatorKind.TRANSACTION).of("any")
                except ClientError:
                    await asyncio.sleep(0.5)  # not all brokers are registered
                else:
                    return

    async def _choose(self) -> None:
        controller = Inspection(self.machines.nodes).leader()
        others = [name for name in self.machines.nodes if name != controller]
        self.leader, self.coordinator = others
        parts = self.machines.nodes[self.leader].parts
        assert parts is not None
        image = parts.local.image
        number = {name: NodeId(int(name.removeprefix("node-"))) for name in others}
        orders = image.topics_by_name["orders"].partitions
        self._index = next(
            index for index, one in enumerate(orders) if one.leader == number[self.leader]
        )
        shards = image.topics_by_name[TRANSACTION_TOPIC].partitions
        self._key = next(
            key
            for key in map(str, range(1000))
            if shards[partition_of(key, partition_count=len(shards))].leader
            == number[self.coordinator]
        )
        channel = await self._open(self.coordinator)
        init = InitProducerIdRequest(transactional_id=self._key, transaction_timeout_ms=600_000)
        async with asyncio.timeout(WAIT_S):
            while True:
                reply = await channel.ask(init, InitProducerIdResponse, timeout_ms=WAIT_S * 1000)
                if reply.error_code == ErrorCode.NONE:
                    break
                await asyncio.sleep(0.1)
        self._producer = (reply.producer_id, reply.producer_epoch)
        channel.close()

    async def _open(self, host: str) -> Channel:
        return await open_channel(
            self.machines.world("client").network,
            address(host),
            client_id="client",
            tasks=self._tasks,
            timeout_ms=WAIT_S * 1000,
        )

    def close(self) -> None:
        assert self._channel is not None
        self._channel.close()


def answers_over_a_cut(*timeouts_ms: int) -> list[Answer]:
    """To one batch after the other while the link is cut; the last one when it is whole again."""
    answers: list[Answer] = []

    async def scenario(machines: Machines) -> None:
        async with TaskGroup() as tasks:
            scene = Scene(machines, tasks)
            await scene.begin()
            join = scene.cut()
            for timeout_ms in timeouts_ms:
                answers.append(await scene.produce(timeout_ms=timeout_ms))
            join()
            async with asyncio.timeout(WAIT_S):
                while True:
                    answer = await scene.produce(timeout_ms=PATIENT_MS)
                    if answer.code is not REFUSED:
                        break
                    await asyncio.sleep(0.1)
            answers.append(answer)
            scene.close()

    Machines().run(scenario)
    return answers


REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_waits_no_longer_than_its_request_for_a_coordinator_that_is_cut_off() -> None:
    first, last = answers_over_a_cut(1_500)
    assert first.code is REFUSED
    assert first.took_ms <= 1_600
    assert last.code is ErrorCode.NONE


def test_a_coordinator_known_to_be_cut_off_keeps_no_batch_waiting_for_long() -> None:
    first, second, third, last = answers_over_a_cut(PATIENT_MS, PATIENT_MS, PATIENT_MS)
    assert {one.code for one in (first, second, third)} == {REFUSED}
    assert first.took_ms <= 6_500
    assert second.took_ms <= 2_500
    assert third.took_ms <= 2_500
    assert last.code is ErrorCode.NONE
