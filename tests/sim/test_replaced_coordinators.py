"""A coordinator that was replaced, and does not know it, answers success to nobody.

It is cut off from the other nodes, not from its clients. What it decides cannot be committed: its
clients get an error after which they look for the coordinator, or ask again. The others go on with
a coordinator of their own, and when the links are whole again there is one state.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.channel import open_channel
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError
from penstock.model.error import ErrorCode
from penstock.sim.cluster.layout import address, configs, format_nodes, machine
from penstock.sim.entropy import stream
from penstock.wire.definition import Message
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from penstock.world.ports import Address
from penstock.world.tasks import TaskGroup
from rig.machines import Machines

NODES = 3
WAIT_S = 60
ANSWER_MS = 15_000
VERSION_MAX = 7  # topics have names
KEY = "billing"  # a group, and a transactional id
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "min.insync.replicas": "2",
}
UNDERSTOOD = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

Reply = TypeVar("Reply", bound=Message)


def commit_of(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id=KEY, generation_id_or_member_epoch=-1, topics=[topic])


def commit_code(reply: OffsetCommitResponse) -> int:
    return reply.topics[0].partitions[0].error_code


FETCH = OffsetFetchRequest(
    group_id=KEY, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
)
INIT = InitProducerIdRequest(transactional_id=KEY, transaction_timeout_ms=60_000)


class Scene:
    """Three nodes, and clients that reach all of them."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines

    async def begin(self) -> None:
        laid_out = configs(NODES, SETTINGS)
        format_nodes(self.machines, laid_out, stream(1, "formatting"))
        for host, config in laid_out.items():
            self.machines.start_node(host, config)
        for node in self.machines.nodes.values():
            async with asyncio.timeout(WAIT_S):
                await node.up.wait()
        async with self.machines.client("client", self.addresses()) as cluster:
            new = NewTopic(name="orders", partitions=1, replicas=NODES)
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        first_refusal((await Admin(cluster).create_topics([new])).values())
                        return
                    except ClientError:
                        await asyncio.sleep(0.5)  # not all brokers are registered

    def addresses(self, *, without: str | None = None) -> list[Address]:
        names = (machine(number) for number in range(1, NODES + 1))
        return [address(name) for name in names if name != without]

    async def coordinator(self, kind: CoordinatorKind, *, without: str | None = None) -> str:
        """As any node but one says."""
        async with self.machines.client("client", self.addresses(without=without)) as cluster:
            node_id = await Coordinators(cluster, kind=kind).of(KEY)
        return machine(int(node_id))

    async def coordinator_other_than(self, former: str, kind: CoordinatorKind) -> str:
        """As soon as the other nodes name one."""
        async with asyncio.timeout(WAIT_S):
            while True:
                named = await self.coordinator(kind, without=former)
                if named != former:
                    return named
                await asyncio.sleep(0.1)

    async def ask(
        self,
        kind: CoordinatorKind,
        request: Message,
        reply_type: type[Reply],
        code_of: Callable[[Reply], int],
        *,
        without: str | None = None,
    ) -> Reply:
        """Of the coordinator that all nodes but one name, until it answers."""
        async with self.machines.client("other", self.addresses(without=without)) as cluster:
            coordinators = Coordinators(cluster, kind=kind)
            reply = await coordinators.ask(
                KEY,
                request,
                reply_type,
                code_of=code_of,
                version_max=VERSION_MAX,
                answer_ms_max=WAIT_S * 1000,
            )
        assert code_of(reply) == ErrorCode.NONE
        return reply

    async def codes_at(
        self,
        host: str,
        request: Message,
        reply_type: type[Reply],
        code_of: Callable[[Reply], int],
        *,
        until: asyncio.Event,
    ) -> list[ErrorCode]:
        """What one node answers, again and again."""
        codes: list[ErrorCode] = []
        async with TaskGroup() as tasks:
            channel = await open_channel(
                self.machines.world("client").network,
                address(host),
                client_id="client",
                tasks=tasks,
                timeout_ms=ANSWER_MS,
            )
            while not until.is_set():
                version = channel.version_for(type(request), at_most=VERSION_MAX)
                reply = await channel.ask(
                    request, reply_type, timeout_ms=ANSWER_MS, version=version
                )
                codes.append(ErrorCode(code_of(reply)))
                await asyncio.sleep(0.05)
            channel.close()
        return codes

    async def offsets_at(
        self, host: str, *, connected: asyncio.Event, until: asyncio.Event
    ) -> list[tuple[int, int, int]]:
        """When one node was asked for the committed offset, over a connection that lasts, and its
        answers: error code and offset.
        """
        answers: list[tuple[int, int, int]] = []
        clock = self.machines.world("reader").clock
        async with TaskGroup() as tasks:
            channel = await open_channel(
                self.machines.world("reader").network,
                address(host),
                client_id="reader",
                tasks=tasks,
                timeout_ms=ANSWER_MS,
            )
            while not until.is_set():
                asked_ms = clock.monotonic_ms()
                version = channel.version_for(OffsetFetchRequest, at_most=VERSION_MAX)
                reply = await channel.ask(
                    FETCH, OffsetFetchResponse, timeout_ms=ANSWER_MS, version=version
                )
                offset = -1
                if reply.error_code == ErrorCode.NONE:
                    offset = reply.topics[0].partitions[0].committed_offset
                    connected.set()
                answers.append((asked_ms, reply.error_code, offset))
                await asyncio.sleep(0.05)
            channel.close()
        return answers

    def cut_off(self, host: str) -> Callable[[], None]:
        """From the other nodes. Returns what joins it again."""
        others = [name for name in self.machines.nodes if name != host]
        paths = [
            path
            for other in others
            for path in (
                self.machines.wire.path(host, other),
                self.machines.wire.path(other, host),
            )
        ]
        for path in paths:
            path.block()

        def join() -> None:
            for path in paths:
                path.unblock()
            for other in others:
                for link in self.machines.wire.links_between(host, other):
                    link.reset()

        return join


def test_offsets_are_committed_by_one_coordinator_at_a_time() -> None:
    group = CoordinatorKind.GROUP

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        await scene.ask(group, commit_of(10), OffsetCommitResponse, commit_code)
        former = await scene.coordinator(group)
        join = scene.cut_off(former)
        over = asyncio.Event()
        asking = asyncio.create_task(
            scene.codes_at(former, commit_of(11), OffsetCommitResponse, commit_code, until=over)
        )
        await scene.ask(group, commit_of(20), OffsetCommitResponse, commit_code, without=former)
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        over.set()
        codes = await asking
        assert set(codes) <= UNDERSTOOD
        assert codes[-1] is ErrorCode.NOT_COORDINATOR
        reply = await scene.ask(group, FETCH, OffsetFetchResponse, lambda reply: reply.error_code)
        assert reply.topics[0].partitions[0].committed_offset == 20

    Machines().run(scenario)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_replaced_coordinator_answers_with_no_committed_offset(seed: int) -> None:
    """It would be an old one: the consumer would read again what another has read."""
    group = CoordinatorKind.GROUP

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        await scene.ask(group, commit_of(10), OffsetCommitResponse, commit_code)
        former = await scene.coordinator(group)
        connected, over = asyncio.Event(), asyncio.Event()
        asking = asyncio.create_task(scene.offsets_at(former, connected=connected, until=over))
        async with asyncio.timeout(WAIT_S):
            await connected.wait()
        join = scene.cut_off(former)
        # Before that the former one would get the commit, and wait for its followers.
        await scene.coordinator_other_than(former, group)
        await scene.ask(group, commit_of(20), OffsetCommitResponse, commit_code, without=former)
        committed_ms = machines.world("reader").clock.monotonic_ms()
        await asyncio.sleep(5)
        # A client that reaches the former one first finds the other nevertheless.
        addresses = [address(former), *scene.addresses(without=former)]
        async with machines.client("late", addresses) as cluster:
            reply = await Coordinators(cluster, kind=group).ask(
                KEY,
                FETCH,
                OffsetFetchResponse,
                code_of=lambda reply: reply.error_code,
                version_max=VERSION_MAX,
            )
            assert reply.topics[0].partitions[0].committed_offset == 20
        join()
        await asyncio.sleep(10)
        over.set()
        answers = await asking
        assert {code for _, code, _ in answers} <= {ErrorCode.NONE, *UNDERSTOOD}
        assert {offset for asked_ms, _, offset in answers if asked_ms > committed_ms} == {-1}
        assert answers[-1][1] == ErrorCode.NOT_COORDINATOR

    Machines(seed).run(scenario)


def test_identities_are_given_by_one_coordinator_at_a_time() -> None:
    """Two clients with one identity would both write."""
    transaction = CoordinatorKind.TRANSACTION

    def code_of(reply: InitProducerIdResponse) -> int:
        return reply.error_code

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        first = await scene.ask(transaction, INIT, InitProducerIdResponse, code_of)
        former = await scene.coordinator(transaction)
        join = scene.cut_off(former)
        over = asyncio.Event()
        asking = asyncio.create_task(
            scene.codes_at(former, INIT, InitProducerIdResponse, code_of, until=over)
        )
        second = await scene.ask(transaction, INIT, InitProducerIdResponse, code_of, without=former)
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        over.set()
        codes = await asking
        assert set(codes) <= UNDERSTOOD
        assert codes[-1] is ErrorCode.NOT_COORDINATOR
        third = await scene.ask(transaction, INIT, InitProducerIdResponse, code_of)
        given = [(one.producer_id, one.producer_epoch) for one in (first, second, third)]
        assert given == [(first.producer_id, epoch) for epoch in range(3)]

    Machines().run(scenario)
