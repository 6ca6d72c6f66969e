"""A plan of balance is carried out only where partitions are still as they were measured."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from penstock.client.admin.balance_plan import BalancePlan, Change, PartitionLoad
from penstock.client.admin.balancing import (
    Execution,
    MovesRun,
    PlanOutdated,
    Stopped,
    StoppedElsewhere,
    stop_all,
)
from penstock.client.admin.moving import Followed
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import AnyReply, Cluster
from penstock.model.identity import NodeId, TopicPartition
from penstock.testing import Broker
from penstock.wire.definition import Message
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.client_cluster import run_with_cluster
from rig.reassigning import begin, create_on, ongoing, shown, until, until_settled

THREE_NODES = pytest.mark.penstock(nodes=3, settings={"min.insync.replicas": 1})
BEFORE, TARGET = (1, 2), (3, 2)


def plan_of_two() -> BalancePlan:
    """Both partitions of a topic move from BEFORE to TARGET."""
    changes = tuple(
        Change(
            before=PartitionLoad(
                partition=TopicPartition("orders", index),
                leader=NodeId(BEFORE[0]),
                replicas=tuple(map(NodeId, BEFORE)),
                size_bytes=1,
                in_bytes=1.0,
            ),
            leader=NodeId(TARGET[0]),
            target=tuple(map(NodeId, TARGET)),
        )
        for index in range(2)
    )
    loads = dict.fromkeys(map(NodeId, (1, 2, 3)), 1.0)
    return BalancePlan(
        changes=changes,
        loads_before=loads,
        loads_after=loads,
        requests_before=loads,
        requests_after=loads,
        limit=1.3,
    )


def balance(
    penstock: Broker,
    during_first_step: Callable[[], None],
    *,
    rate_bytes: int = 50_000_000,
    before: Callable[[], None] = lambda: None,
) -> list[int]:
    """The partitions that are done; a step for each."""
    done: list[int] = []
    calls = iter([during_first_step])

    def look(found: Sequence[Followed]) -> None:
        next(calls, lambda: None)()

    async def work(cluster: Cluster) -> None:
        execution = Execution(cluster, plan_of_two(), rate_bytes=rate_bytes, at_once=1, shown=look)
        try:
            await execution.run()
        finally:
            await execution.clean_up()
            done.extend(place.partition for place in execution.done)

    create_on(penstock.nodes[1], "orders", [list(BEFORE)] * 2)
    before()
    try:
        run_with_cluster(penstock.bootstrap, work)
    finally:
        assert done[:1] == [0], "the first step was done to its end"
    return done


@THREE_NODES
def test_a_plan_is_done_where_nobody_changes_anything(penstock: Broker) -> None:
    assert balance(penstock, lambda: None) == [0, 1]
    assert [shown(penstock.nodes[1], "orders", index).replica_nodes for index in (0, 1)] == [
        list(TARGET)
    ] * 2


@THREE_NODES
@pytest.mark.parametrize("others", [(1, 2, 3), (2, 3)], ids=["raised", "drained"])
def test_what_others_changed_since_it_was_measured_stays(
    penstock: Broker, others: tuple[int, ...]
) -> None:
    def change() -> None:
        begin(penstock.nodes[1], "orders", *others, partition=1)
        until_settled(penstock.nodes[1])
        for address in penstock.nodes.values():
            until("all know", lambda at=address: replicas(at) == list(others))

    def replicas(address: str) -> list[int]:
        return shown(address, "orders", 1).replica_nodes

    said = f"orders-1 is on {','.join(map(str, others))}, and was on 1,2 when it was measured"
    with pytest.raises(PlanOutdated, match=said):
        balance(penstock, change)
    assert ongoing(penstock.nodes[1]) == []
    assert replicas(penstock.nodes[1]) == list(others)


@pytest.mark.penstock(nodes=4, settings={"min.insync.replicas": 1})
def test_a_move_of_somebody_else_ends_the_balance_and_goes_on(penstock: Broker) -> None:
    """To a node that is down, so that it lasts."""
    create_on(penstock.nodes[1], "others", [[1]])
    penstock.kill(4)
    with pytest.raises(MovesRun, match="1 partition is moving already"):
        balance(penstock, lambda: begin(penstock.nodes[1], "others", 4))
    assert [one.adding_replicas for one in ongoing(penstock.nodes[1])] == [[4]]
    assert shown(penstock.nodes[1], "orders", 1).replica_nodes == list(BEFORE)


class ClusterSeen(Cluster):
    """Says when it has asked what moves for the first time."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.has_looked = threading.Event()

    async def ask_controller(self, request: Message, reply_type: type[AnyReply]) -> AnyReply:
        reply = await super().ask_controller(request, reply_type)
        self.has_looked.set()
        return reply


@THREE_NODES
def test_a_stop_between_two_steps_waits_for_the_next_one(penstock: Broker) -> None:
    """The balance goes on only after the stop has looked, and found nothing that moves."""
    looked = threading.Event()
    stops: list[Future[Stopped]] = []

    def fill() -> None:
        for _ in range(50):
            penstock.produce("orders", [bytes(10_000)], partition=1)

    async def stop() -> Stopped:
        addresses = parse_addresses(penstock.bootstrap)
        async with ClusterSeen(TcpNetwork(), RealClock(), addresses) as cluster:
            cluster.has_looked = looked
            return await stop_all(cluster)

    def stop_after_the_first() -> None:
        until_settled(penstock.nodes[1])
        stops.append(pool.submit(asyncio.run, stop()))
        assert looked.wait(60)

    with ThreadPoolExecutor() as pool:
        with pytest.raises(StoppedElsewhere, match="the move of orders-1 was cancelled"):
            balance(penstock, stop_after_the_first, rate_bytes=2_000, before=fill)
        [stopped] = [one.result() for one in stops]
    assert stopped.cancelled == [TopicPartition("orders", 1)]
    assert ongoing(penstock.nodes[1]) == []
