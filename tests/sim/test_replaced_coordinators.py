"""A coordinator that was replaced, and does not know it, answers success to nobody who writes.

It is cut off from the other nodes, not from its clients. What it decides cannot be committed: its
clients get an error after which they look for the coordinator, or ask again. The others go on with
a coordinator of their own, and when the links are whole again there is one state. What it answers
from memory alone is that a member lives, or may join, which is of no use to it (ADR 41).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import pytest

from penstock.client.admin.admin import Admin, NewTopic, first_refusal
from penstock.client.network.channel import open_channel
from penstock.client.network.coordinators import CoordinatorKind, Coordinators
from penstock.client.network.errors import ClientError
from penstock.model.error import ErrorCode
from penstock.sim.cluster.layout import address, configs, format_nodes, machine
from penstock.sim.entropy import stream
from penstock.wire.definition import Message
from penstock.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
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
from penstock.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from penstock.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
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
    "group.initial.rebalance.delay.ms": "0",
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


class Ask(Protocol):
    """Asks one node, or whoever coordinates by what the nodes say."""

    async def __call__(
        self, request: Message, reply_type: type[Reply], *, version_max: int = VERSION_MAX
    ) -> Reply: ...


Turn = Callable[[Ask], Awaitable[Message]]  # one request, or several; the last reply


def commit_of(offset: int, *, epoch: int = -1, member: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(
        group_id=KEY, generation_id_or_member_epoch=epoch, member_id=member, topics=[topic]
    )


def code_of(reply: Message) -> ErrorCode:
    match reply:
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            return ErrorCode(reply.topics[0].partitions[0].error_code)
        case _:
            return ErrorCode(reply.error_code)


FETCH = OffsetFetchRequest(
    group_id=KEY, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
)
JOIN_MODERN = ConsumerGroupHeartbeatRequest(
    group_id=KEY,
    member_id="a-member",
    member_epoch=0,
    rebalance_timeout_ms=30_000,
    subscribed_topic_names=["orders"],
    topic_partitions=[],
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
        *,
        version_max: int = VERSION_MAX,
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
                version_max=version_max,
                answer_ms_max=WAIT_S * 1000,
            )
        assert code_of(reply) is ErrorCode.NONE
        return reply

    async def codes_at(self, host: str, turn: Turn, *, until: asyncio.Event) -> list[ErrorCode]:
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

            async def ask(
                request: Message, reply_type: type[Reply], *, version_max: int = VERSION_MAX
            ) -> Reply:
                version = channel.version_for(type(request), at_most=version_max)
                return await channel.ask(request, reply_type, timeout_ms=ANSWER_MS, version=version)

            while not until.is_set():
                codes.append(code_of(await turn(ask)))
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
        await scene.ask(group, commit_of(10), OffsetCommitResponse)
        former = await scene.coordinator(group)
        join = scene.cut_off(former)
        over = asyncio.Event()
        asking = asyncio.create_task(
            scene.codes_at(former, lambda ask: ask(commit_of(11), OffsetCommitResponse), until=over)
        )
        await scene.ask(group, commit_of(20), OffsetCommitResponse, without=former)
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        over.set()
        codes = await asking
        assert set(codes) <= UNDERSTOOD
        assert codes[-1] is ErrorCode.NOT_COORDINATOR
        reply = await scene.ask(group, FETCH, OffsetFetchResponse)
        assert reply.topics[0].partitions[0].committed_offset == 20

    Machines().run(scenario)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_replaced_coordinator_answers_with_no_committed_offset(seed: int) -> None:
    """It would be an old one: the consumer would read again what another has read."""
    group = CoordinatorKind.GROUP

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        await scene.ask(group, commit_of(10), OffsetCommitResponse)
        former = await scene.coordinator(group)
        connected, over = asyncio.Event(), asyncio.Event()
        asking = asyncio.create_task(scene.offsets_at(former, connected=connected, until=over))
        async with asyncio.timeout(WAIT_S):
            await connected.wait()
        join = scene.cut_off(former)
        # Before that the former one would get the commit, and wait for its followers.
        await scene.coordinator_other_than(former, group)
        await scene.ask(group, commit_of(20), OffsetCommitResponse, without=former)
        committed_ms = machines.world("reader").clock.monotonic_ms()
        await asyncio.sleep(5)
        # A client that reaches the former one first finds the other nevertheless.
        addresses = [address(former), *scene.addresses(without=former)]
        async with machines.client("late", addresses) as cluster:
            reply = await Coordinators(cluster, kind=group).ask(
                KEY,
                FETCH,
                OffsetFetchResponse,
                code_of=code_of,
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

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        first = await scene.ask(transaction, INIT, InitProducerIdResponse)
        former = await scene.coordinator(transaction)
        join = scene.cut_off(former)
        over = asyncio.Event()
        asking = asyncio.create_task(
            scene.codes_at(former, lambda ask: ask(INIT, InitProducerIdResponse), until=over)
        )
        second = await scene.ask(transaction, INIT, InitProducerIdResponse, without=former)
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        over.set()
        codes = await asking
        assert set(codes) <= UNDERSTOOD
        assert codes[-1] is ErrorCode.NOT_COORDINATOR
        third = await scene.ask(transaction, INIT, InitProducerIdResponse)
        given = [(one.producer_id, one.producer_epoch) for one in (first, second, third)]
        assert given == [(first.producer_id, epoch) for epoch in range(3)]

    Machines().run(scenario)


# Requests that write; each is prepared where the coordinator is now, and returns how it is asked.


async def end_of_a_transaction(scene: Scene) -> Turn:
    identity = await with_offsets_added(scene)
    request = EndTxnRequest(transactional_id=KEY, committed=True, **identity)
    return lambda ask: ask(request, EndTxnResponse, version_max=4)  # with the epoch that it has


async def a_group_in_a_transaction(scene: Scene) -> Turn:
    identity = await begun(scene)
    request = AddOffsetsToTxnRequest(transactional_id=KEY, group_id=KEY, **identity)
    return lambda ask: ask(request, AddOffsetsToTxnResponse)


async def offsets_in_a_transaction(scene: Scene) -> Turn:
    identity = await with_offsets_added(scene)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=11)
    topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = TxnOffsetCommitRequest(transactional_id=KEY, group_id=KEY, topics=[topic], **identity)
    return lambda ask: ask(request, TxnOffsetCommitResponse, version_max=4)  # they were added


async def an_assignment(scene: Scene) -> Turn:
    """JoinGroup may be answered from memory; what its leader assigns is stored."""
    await coordinated(scene)
    return join_and_assign


async def a_member_of_a_modern_group(scene: Scene) -> Turn:
    await coordinated(scene)
    return lambda ask: ask(JOIN_MODERN, ConsumerGroupHeartbeatResponse)


async def coordinated(scene: Scene) -> None:
    """The coordinator of groups knows that it is: one that is named may not have heard of it."""
    await scene.ask(CoordinatorKind.GROUP, FETCH, OffsetFetchResponse)


async def begun(scene: Scene) -> dict[str, int]:
    """The identity of a producer."""
    given = await scene.ask(CoordinatorKind.TRANSACTION, INIT, InitProducerIdResponse)
    return {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}


async def with_offsets_added(scene: Scene) -> dict[str, int]:
    """Likewise, with a transaction that is open."""
    identity = await begun(scene)
    request = AddOffsetsToTxnRequest(transactional_id=KEY, group_id=KEY, **identity)
    await scene.ask(CoordinatorKind.TRANSACTION, request, AddOffsetsToTxnResponse)
    return identity


async def join_and_assign(ask: Ask) -> Message:
    """A member of a classic group joins, and assigns all to itself if it is told to lead."""
    request = JoinGroupRequest(
        group_id=KEY,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=1_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await ask(request, JoinGroupResponse, version_max=3)  # the id comes with the reply
    if code_of(joined) is not ErrorCode.NONE:
        return joined
    assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id=KEY,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assigned],
    )
    return await ask(request, SyncGroupResponse, version_max=3)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("kind", "prepare"),
    [
        (CoordinatorKind.TRANSACTION, end_of_a_transaction),
        (CoordinatorKind.TRANSACTION, a_group_in_a_transaction),
        (CoordinatorKind.GROUP, offsets_in_a_transaction),
        (CoordinatorKind.GROUP, an_assignment),
        (CoordinatorKind.GROUP, a_member_of_a_modern_group),
    ],
)
def test_a_replaced_coordinator_answers_success_to_nobody_who_writes(
    kind: CoordinatorKind, prepare: Callable[[Scene], Awaitable[Turn]], seed: int
) -> None:
    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        turn = await prepare(scene)
        former = await scene.coordinator(kind)
        join = scene.cut_off(former)
        over = asyncio.Event()
        asking = asyncio.create_task(scene.codes_at(former, turn, until=over))
        await turn(partial(scene.ask, kind, without=former))
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        over.set()
        codes = await asking
        assert set(codes) <= UNDERSTOOD
        assert codes[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it took itself for the coordinator"
        assert codes[-1] is ErrorCode.NOT_COORDINATOR

    Machines(seed).run(scenario)


# Members of groups, as far as their coordinator knows; each returns its heartbeat, id and epoch.


async def a_classic_member(scene: Scene) -> tuple[Turn, str, int]:
    told = []

    async def ask(request: Message, reply_type: type[Reply], *, version_max: int) -> Reply:
        told.append(request)
        return await scene.ask(CoordinatorKind.GROUP, request, reply_type, version_max=version_max)

    await join_and_assign(ask)
    synced = told[-1]
    request = HeartbeatRequest(
        group_id=KEY, generation_id=synced.generation_id, member_id=synced.member_id
    )
    return lambda ask: ask(request, HeartbeatResponse), synced.member_id, synced.generation_id


async def a_modern_member(scene: Scene) -> tuple[Turn, str, int]:
    joined = await scene.ask(CoordinatorKind.GROUP, JOIN_MODERN, ConsumerGroupHeartbeatResponse)
    request = ConsumerGroupHeartbeatRequest(
        group_id=KEY, member_id=joined.member_id, member_epoch=joined.member_epoch
    )
    return (
        lambda ask: ask(request, ConsumerGroupHeartbeatResponse),
        joined.member_id,
        joined.member_epoch,
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("prepare", [a_classic_member, a_modern_member])
def test_a_member_that_goes_on_at_a_replaced_coordinator_cannot_commit(
    prepare: Callable[[Scene], Awaitable[tuple[Turn, str, int]]], seed: int
) -> None:
    """Its heartbeats may be answered from memory, until the coordinator knows (ADR 41)."""
    group = CoordinatorKind.GROUP

    async def scenario(machines: Machines) -> None:
        scene = Scene(machines)
        await scene.begin()
        heartbeat, member, epoch = await prepare(scene)
        former = await scene.coordinator(group)
        join = scene.cut_off(former)
        over, replaced = asyncio.Event(), asyncio.Event()
        beating = asyncio.create_task(scene.codes_at(former, heartbeat, until=replaced))
        await scene.coordinator_other_than(former, group)
        replaced.set()
        commit = commit_of(11, epoch=epoch, member=member)
        committing = asyncio.create_task(
            scene.codes_at(former, lambda ask: ask(commit, OffsetCommitResponse), until=over)
        )
        await asyncio.sleep(5)
        join()
        await asyncio.sleep(10)
        beating_again = asyncio.create_task(scene.codes_at(former, heartbeat, until=over))
        await asyncio.sleep(1)
        over.set()
        assert set(await beating) <= {ErrorCode.NONE, *UNDERSTOOD}
        codes = await committing
        assert set(codes) <= UNDERSTOOD
        assert codes[-1] is ErrorCode.NOT_COORDINATOR
        assert set(await beating_again) == {ErrorCode.NOT_COORDINATOR}

    Machines(seed).run(scenario)
