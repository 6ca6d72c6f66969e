"""What a leader has, its followers have: over real connections, from a leader in the test."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.api import metadata
from penstock.broker.controller.links import Links
from penstock.broker.replication.fetchers import ReplicaFetchers
from penstock.broker.replication.leader_contact import LOST_MS_MAX
from penstock.client.network.channel import open_channel
from penstock.client.network.view_channel import open_view_channel
from penstock.log.producer_replay import BATCHES_PER_STEP
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.replication import ReplicationSettings
from penstock.replication.follower import Follower
from penstock.replication.throttle import ReplicationThrottle
from penstock.wire.messages.fetch import EpochEndOffset
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from penstock.world.ports import Address, Disk
from penstock.world.tasks import TaskGroup
from rig.held_clock import HeldClock
from rig.leader_node import LeaderNode, LedLog, until
from rig.services import NODE, OTHER, Broker
from rig.watched_disk import WatchedDisk

ONE, TWO = NodeId(11), NodeId(12)
WAIT_S_MAX = 120


class Following:
    """A broker that follows two leader nodes."""

    def __init__(self, broker: Broker, group: TaskGroup, **settings: Any) -> None:
        self.broker = broker
        self.group = group
        self.leaders = {node: LeaderNode(node, broker.world) for node in (ONE, TWO)}
        self.addresses: dict[NodeId, Address] = {}
        self.clock = HeldClock(broker.world.clock)
        self.throttle = ReplicationThrottle()
        self.fetchers = ReplicaFetchers(
            links=Links(
                network=broker.world.network,
                client_id="follower",
                address_of=self.addresses.get,
                tasks=group,
                open_channel=open_channel,
                open_view_channel=open_view_channel,
            ),
            node_id=NODE,
            broker_epoch=lambda: 5,
            partitions=broker.partitions,
            settings=ReplicationSettings(**{"replica_fetch_wait_max_ms": 30_000, **settings}),
            throttle=self.throttle,
            clock=self.clock,
            tasks=group,
        )
        broker.services.lost_nodes = self.fetchers
        broker.partitions.follower_synced = self.fetchers.synced

    async def serve(self) -> None:
        for node, leader in self.leaders.items():
            await leader.serve(self.group)
            self.addresses[node] = leader.address

    def follow(
        self, name: str, *, partitions: int = 1, leader: NodeId = ONE, **topic: Any
    ) -> list[LedLog]:
        """A new topic of the leader; its logs there."""
        replicas = (NODE, ONE, TWO)
        topic_id = self.broker.create_topic(
            name, partitions, leader=leader, replicas=replicas, **topic
        )
        logs = self.leaders[leader].lead(name, topic_id, partitions=partitions)
        self.fetchers.follow(self.broker.applied.followed)
        return logs

    def change(self, name: str, **changes: Any) -> None:
        """Of partition 0."""
        topic = self.topic(name)
        before = topic.partitions[0]
        after = replace(before, partition_epoch=before.partition_epoch + 1, **changes)
        self.broker.change_topic(replace(topic, partitions=(after, *topic.partitions[1:])))
        self.fetchers.follow(self.broker.applied.followed)

    def register(self, node: NodeId, *, epoch: int) -> None:
        image = self.broker.services.image
        registered = replace(image.brokers[OTHER], node_id=node, epoch=epoch)
        image = replace(image, brokers={**image.brokers, node: registered})
        self.broker.services.image = image
        self.fetchers.brokers_changed([node], image)

    def topic(self, name: str) -> TopicImage:
        return self.broker.services.image.topics_by_name[name]

    def follower(self, name: str, index: int = 0) -> Follower:
        found = self.broker.partitions.replica(TopicPartition(name, index))
        assert isinstance(found, Follower)
        return found

    def followers(self) -> list[Follower]:
        return self.broker.partitions.followed()

    def has_all(self, name: str, log: LedLog, index: int = 0) -> bool:
        """Whether the follower has the leader's log, and the leader knows it."""
        follower = self.follower(name, index)
        assert follower.leader is not None
        asked = self.leaders[follower.leader].positions.get((follower.topic_id, index))
        return follower.log.end_offset == log.end_offset == asked

    def check(self) -> None:
        self.broker.partitions.check()
        self.fetchers.check()


Scenario = Callable[[Following], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def run_scenario(scenario: Scenario, *, disk: Disk | None = None, **settings: Any) -> None:
        asyncio.run(asyncio.wait_for(follow(scenario, tmp_path, settings, disk), WAIT_S_MAX))

    return run_scenario


async def follow(
    scenario: Scenario, path: Path, settings: dict[str, Any], disk: Disk | None
) -> None:
    async with following(path, settings, disk) as cluster:
        await scenario(cluster)
        cluster.check()


@asynccontextmanager
async def following(
    path: Path, settings: dict[str, Any], disk: Disk | None
) -> AsyncIterator[Following]:
    broker = Broker(path, disk=disk)
    async with TaskGroup() as group:
        cluster = Following(broker, group, **settings)
        await cluster.serve()
        try:
            yield cluster
        finally:
            group.cancel()
    broker.close()


def stored(follower: Follower) -> bytes:
    [segment] = follower.log.segments
    return segment.file.read_at(0, segment.size_bytes)


def by_index(logs: list[LedLog]) -> list[tuple[LedLog, int]]:
    return [(log, index) for index, log in enumerate(logs)]


def test_a_follower_has_the_leaders_bytes(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        first, second = cluster.follow("orders", partitions=2)
        first.append(b"a" * 100_000)
        second.append(b"b")
        cluster.leaders[ONE].changed()
        await until(lambda: cluster.has_all("orders", first))
        first.append(b"c")
        cluster.leaders[ONE].changed()
        await until(lambda: cluster.has_all("orders", first))
        await until(lambda: cluster.has_all("orders", second, 1))
        assert stored(cluster.follower("orders")) == b"".join(first.batches)
        assert cluster.follower("orders").high_watermark == 2
        asked = cluster.leaders[ONE].requests[-1]
        assert asked.replica_state is not None
        assert (asked.replica_state.replica_id, asked.replica_state.replica_epoch) == (NODE, 5)
        assert len(set(cluster.leaders[ONE].peers)) == 1, "one connection"

    run(scenario)


def test_only_what_has_changed_is_named(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        logs = cluster.follow("orders", partitions=20)
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.positions) == 20)
        logs[7].append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", logs[7], 7))
        [topic] = leader.requests[-1].topics
        assert [asked.partition for asked in topic.partitions] == [7]

    run(scenario)


def test_a_new_topic_does_not_wait_until_a_long_poll_ends(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [orders] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.requests) == 2 and leader.requests[-1].max_wait_ms > 0)
        [payments] = cluster.follow("payments")  # the poll waits for 30 s
        payments.append()
        await until(lambda: cluster.has_all("payments", payments))
        orders.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", orders))
        assert len(set(leader.peers)) == 1, "still the first connection"

    run(scenario)


def test_a_change_of_leader_is_followed_at_once(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [old] = cluster.follow("orders")
        old.append()
        cluster.leaders[ONE].changed()
        await until(lambda: cluster.has_all("orders", old))
        topic_id = cluster.topic("orders").topic_id
        [new] = cluster.leaders[TWO].lead("orders", topic_id)
        new.batches = [*old.batches]
        new.append(leader_epoch=1)
        cluster.change("orders", leader=TWO, leader_epoch=LeaderEpoch(1))
        await until(lambda: cluster.has_all("orders", new))
        assert stored(cluster.follower("orders")) == b"".join(new.batches)

    run(scenario)


def test_a_partition_with_an_error_does_not_stop_the_others(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        bad.append()
        good.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        assert stored(cluster.follower("orders")) == b""
        bad.error = ErrorCode.NONE
        await until(lambda: cluster.has_all("orders", bad))
        assert stored(cluster.follower("orders")) == b"".join(bad.batches)
        assert stored(cluster.follower("orders", 1)) == b"".join(good.batches)

    run(scenario)


def test_a_follower_behind_the_leaders_start_begins_there(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        await until(lambda: cluster.has_all("orders", log))
        log.start_offset = 100
        log.append()
        cluster.leaders[ONE].changed()
        await until(lambda: cluster.has_all("orders", log))
        assert cluster.follower("orders").log.start_offset == 100
        assert cluster.follower("orders").log.end_offset == 101

    run(scenario)


def test_a_leader_that_refuses_an_offset_which_it_has_is_asked_now_and_then(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """There is nowhere to restart: it is logged once, and the others go on."""

    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.error = ErrorCode.OFFSET_OUT_OF_RANGE
        await until(lambda: any("refuses 0" in line for line in caplog.messages))
        good.append()
        bad.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        told = [line for line in caplog.messages if "orders-0" in line]
        assert len(told) == 1, told
        bad.error = ErrorCode.NONE
        leader.changed()
        await until(lambda: cluster.has_all("orders", bad))

    with caplog.at_level(logging.WARNING):
        run(scenario, replica_fetch_backoff_ms=200)


def test_a_leader_that_says_it_ends_below_zero_stops_nobody(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", bad))
        bad.error, bad.listed_end = ErrorCode.OFFSET_OUT_OF_RANGE, -1
        leader.changed()
        tried = len(leader.requests)
        await until(lambda: len(leader.requests) > tried + 5)
        good.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        assert cluster.follower("orders").log.end_offset == 1

    run(scenario, replica_fetch_backoff_ms=5)


def test_a_divergence_that_asks_for_nothing_is_logged_once_and_waited_for(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The follower's log ends where the leader wants it to end, and is told so again and again."""

    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", bad))
        bad.diverging = EpochEndOffset(epoch=0, end_offset=1)
        leader.changed()
        await until(lambda: any("state=refused" in line for line in caplog.messages))
        tried = len(leader.requests)
        good.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        assert len(leader.requests) < tried + 20
        bad.diverging = None
        bad.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", bad))

    with caplog.at_level(logging.INFO):
        run(scenario, replica_fetch_backoff_ms=200)
    told = [line for line in caplog.messages if "partition=orders-0" in line]
    assert len(told) == 1, told


def test_a_long_truncation_does_not_stop_the_others(run: Callable[..., None]) -> None:
    """The new leader has less; the state of the producer that wrote it takes many steps to find."""

    async def scenario(cluster: Following) -> None:
        [old] = cluster.follow("orders")
        [other] = cluster.follow("bills", leader=TWO)
        for number in range(3 * BATCHES_PER_STEP):
            old.append(producer=7, sequence=number)
        cluster.leaders[ONE].changed()
        await until(lambda: cluster.has_all("orders", old))
        [new] = cluster.leaders[TWO].lead("orders", cluster.topic("orders").topic_id)
        new.batches = old.batches[: 2 * BATCHES_PER_STEP]
        cluster.change("orders", leader=TWO, leader_epoch=LeaderEpoch(1))
        other.append()
        cluster.leaders[TWO].changed()
        await until(lambda: cluster.has_all("bills", other))
        await until(lambda: cluster.has_all("orders", new))
        assert stored(cluster.follower("orders")) == b"".join(new.batches)

    run(scenario)


def test_records_that_the_leader_has_removed_go_from_its_followers(
    run: Callable[..., None],
) -> None:
    async def scenario(cluster: Following) -> None:
        logs = cluster.follow("orders", partitions=150)
        leader = cluster.leaders[ONE]
        for log in logs:
            log.append()
            log.append()
        leader.changed()
        await until(lambda: all(cluster.has_all("orders", *each) for each in by_index(logs)))
        for log in logs:
            log.remove_first()
        logs[7].append()  # a follower that waits is told with the next reply
        leader.changed()
        await until(lambda: all(one.log.start_offset == 1 for one in cluster.followers()))
        await until(lambda: all(start == 1 for start in leader.follower_starts.values()))
        assert len(leader.follower_starts) == len(logs)
        assert [one.log.end_offset for one in cluster.followers()] == [
            log.end_offset for log in logs
        ]

    run(scenario)


def test_records_that_the_leader_has_removed_go_once_the_disk_has_room(
    run: Callable[..., None],
) -> None:
    disk = WatchedDisk()

    async def scenario(cluster: Following) -> None:
        orders, other = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        orders.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", orders))
        disk.full = True
        orders.remove_first()
        orders.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", orders))
        assert cluster.follower("orders").log.start_offset == 0
        disk.full = False
        other.append()  # the next reply says nothing more of the first partition
        leader.changed()
        await until(lambda: cluster.has_all("orders", other, 1))
        assert cluster.follower("orders").log.start_offset == 1
        assert leader.follower_starts[cluster.topic("orders").topic_id, 0] == 1

    run(scenario, disk=disk, replica_fetch_backoff_ms=0)


def test_a_lost_session_is_opened_again(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        first, second = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.positions) == 2)
        leader.lose_sessions()
        second.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", second, 1))
        assert cluster.has_all("orders", first)

    run(scenario)


def shown(cluster: Following, name: str) -> MetadataResponsePartition:
    """Partition 0, as this broker tells clients of it."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    reply = cluster.broker.send(metadata.API, wanted, version=12)
    assert isinstance(reply, MetadataResponse)
    return reply.topics[0].partitions[0]


def test_clients_are_not_sent_to_a_leader_that_has_just_hung_up(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        log.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", log))
        cluster.register(ONE, epoch=7)
        assert shown(cluster, "orders").leader_id == ONE
        cluster.clock.hold()
        assert leader.server is not None
        leader.server.hang_up()
        await until(lambda: cluster.fetchers.is_lost(ONE))
        answer = shown(cluster, "orders")
        assert (answer.leader_id, answer.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        assert answer.replica_nodes == [NODE, ONE, TWO]
        assert not cluster.fetchers.is_lost(TWO)
        # The controller has not replaced it: it may live, and be cut off from this node alone.
        cluster.clock.hold(later_ms=LOST_MS_MAX)
        answer = shown(cluster, "orders")
        assert (answer.leader_id, answer.error_code) == (ONE, ErrorCode.NONE)

    run(scenario)


def test_a_leader_that_replies_again_is_not_lost_any_more(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        cluster.clock.hold()
        await until(lambda: cluster.has_all("orders", log))
        assert leader.server is not None
        port = leader.address.port
        leader.server.hang_up()
        await until(lambda: cluster.fetchers.is_lost(ONE))
        await leader.serve(cluster.group, port=port)
        await until(lambda: not cluster.fetchers.is_lost(ONE))

    run(scenario)


def test_a_leader_whose_new_process_is_connected_to_is_not_lost(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        cluster.clock.hold()
        cluster.register(ONE, epoch=7)
        await until(lambda: cluster.has_all("orders", log))
        fetched = len(cluster.leaders[ONE].requests)
        cluster.register(ONE, epoch=8)
        while len(cluster.leaders[ONE].requests) == fetched:
            assert not cluster.fetchers.is_lost(ONE)
            await asyncio.sleep(0)

    run(scenario)


def test_a_session_that_is_lost_again_and_again_is_not_a_lost_connection(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        for _ in range(5):
            log.append()
            leader.changed()
            await until(lambda: cluster.has_all("orders", log))
            leader.lose_sessions()

    caplog.set_level(logging.INFO)
    run(scenario)
    assert [line for line in caplog.messages if "connected=" in line] == []


def test_a_partition_that_the_leader_refuses_for_long_is_logged_once(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        good.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        tried = len(leader.requests)
        await until(lambda: len(leader.requests) > tried + 20)

    run(scenario, replica_fetch_backoff_ms=40)
    told = [line for line in caplog.messages if "state=refused" in line]
    assert told == [
        "replica failed partition=orders-0 leader=11 state=refused reason=NOT_LEADER_OR_FOLLOWER"
    ]


def test_a_leader_that_comes_back_elsewhere_is_found(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        await until(lambda: cluster.has_all("orders", log))
        assert leader.server is not None
        leader.server.hang_up()
        for listener in leader.server.listeners.values():
            listener.close()
        log.append()
        leader.lose_sessions()
        await leader.serve(cluster.group)
        cluster.addresses[ONE] = leader.address
        cluster.register(ONE, epoch=2)
        await until(lambda: cluster.has_all("orders", log))
        assert stored(cluster.follower("orders")) == b"".join(log.batches)

    run(scenario)


def test_a_new_process_of_the_leader_is_asked_though_the_old_one_is_silent(
    run: Callable[..., None],
) -> None:
    async def scenario(cluster: Following) -> None:
        cluster.register(ONE, epoch=1)
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.requests) == 2)  # the second one waits for 30 s
        log.append()
        leader.forget_sessions()
        await leader.serve(cluster.group)
        cluster.addresses[ONE] = leader.address
        cluster.register(ONE, epoch=2)
        await until(lambda: cluster.has_all("orders", log))
        assert len(set(leader.peers)) == 2
        assert stored(cluster.follower("orders")) == b"".join(log.batches)

    run(scenario)


def test_a_leader_that_is_silent_is_asked_on_a_new_connection(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        [log] = cluster.follow("orders")
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.requests) == 2)  # the second one waits for 30 s
        log.append()
        leader.forget_sessions()  # and nobody wakes it
        await until(lambda: cluster.has_all("orders", log))
        assert len(set(leader.peers)) == 2

    run(scenario, replica_socket_timeout_ms=200)


def test_a_partition_that_is_gone_is_fetched_no_more(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        cluster.follow("orders")
        [payments] = cluster.follow("payments")
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.positions) == 2)
        cluster.broker.delete_topic("orders")
        cluster.fetchers.follow(cluster.broker.applied.followed)
        await until(lambda: len(leader.positions) == 1)
        payments.append()
        leader.changed()
        await until(lambda: cluster.has_all("payments", payments))
        assert list(leader.positions) == [(cluster.topic("payments").topic_id, 0)]

    run(scenario)


def test_with_fsync_acks_only_what_is_synced_is_named(run: Callable[..., None]) -> None:
    async def scenario(cluster: Following) -> None:
        synced = {"penstock.ack.fsync": "true"}
        [orders] = cluster.follow("orders", config=synced)
        [payments] = cluster.follow("payments")
        leader = cluster.leaders[ONE]
        await until(lambda: len(leader.positions) == 2)
        orders.append()
        payments.append()
        leader.changed()
        follower = cluster.follower("orders")
        await until(lambda: cluster.has_all("payments", payments))
        await until(lambda: (follower.topic_id, 0) not in leader.positions)
        assert follower.log.end_offset == 1, "it is appended, and left out until it is synced"
        await cluster.broker.partitions.sync_wanted()
        await until(lambda: cluster.has_all("orders", orders))

    run(scenario)


def test_a_corrupt_batch_is_logged_once_and_the_others_go_on(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Following) -> None:
        bad, good = cluster.follow("orders", partitions=2)
        leader = cluster.leaders[ONE]
        bad.append(b"whole")
        [whole] = bad.batches
        bad.batches = [whole[:-1] + b"!"]
        good.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", good, 1))
        tried = len(leader.requests)
        await until(lambda: len(leader.requests) > tried + 8)
        assert cluster.follower("orders").log.end_offset == 0
        bad.batches = [whole]
        await until(lambda: cluster.has_all("orders", bad))

    run(scenario, replica_fetch_backoff_ms=5)
    told = [line for line in caplog.messages if "state=failed" in line]
    assert len(told) == 1
    assert "partition=orders-0" in told[0]


# The throttle

LISTED = {"follower.replication.throttled.replicas": f"0:{NODE}"}


def test_a_replica_that_is_out_of_sync_is_held_back_and_others_go_on(
    run: Callable[..., None],
) -> None:
    async def scenario(cluster: Following) -> None:
        cluster.clock.hold()
        cluster.throttle.limit(1_000_000, now_ms=cluster.clock.monotonic_ms())
        first, second = cluster.follow("orders", partitions=2, config=LISTED)
        cluster.change("orders", isr=(ONE, TWO))  # the second partition is in sync here
        first.high_watermark = 10
        leader = cluster.leaders[ONE]
        for log in (first, second):
            log.append(b"x" * 50_000)
        leader.changed()
        await until(lambda: cluster.has_all("orders", second, 1))
        await until(lambda: (cluster.follower("orders").topic_id, 0) not in leader.positions)
        assert cluster.follower("orders").log.end_offset == 1
        second.append()
        leader.changed()
        await until(lambda: cluster.has_all("orders", second, 1))
        assert cluster.follower("orders").log.end_offset == 1
        cluster.clock.hold(later_ms=1_000)
        await until(lambda: cluster.has_all("orders", first))

    run(scenario)


@pytest.mark.parametrize("exempt", ["in sync", "not listed", "no rate"])
def test_no_other_replica_is_held_back(run: Callable[..., None], exempt: str) -> None:
    async def scenario(cluster: Following) -> None:
        cluster.clock.hold()
        if exempt != "no rate":
            cluster.throttle.limit(1, now_ms=cluster.clock.monotonic_ms())
        config = {} if exempt == "not listed" else LISTED
        [orders] = cluster.follow("orders", config=config)
        if exempt != "in sync":
            cluster.change("orders", isr=(ONE, TWO))
        orders.high_watermark = 10
        for _ in range(5):
            orders.append(b"x" * 10_000)
            cluster.leaders[ONE].changed()
            await until(lambda: cluster.has_all("orders", orders))
        # The clock has stood still: nothing waited for the rate to allow it.
        assert stored(cluster.follower("orders")) == b"".join(orders.batches)

    run(scenario)


def test_a_replica_that_has_all_that_is_committed_is_not_held_back(
    run: Callable[..., None],
) -> None:
    """It is about to be in sync, and acks may wait for it already."""

    async def scenario(cluster: Following) -> None:
        cluster.clock.hold()
        cluster.throttle.limit(1, now_ms=cluster.clock.monotonic_ms())
        [orders] = cluster.follow("orders", config=LISTED)
        cluster.change("orders", isr=(ONE, TWO))
        for _ in range(5):
            orders.append(b"x" * 10_000)
            cluster.leaders[ONE].changed()
            await until(lambda: cluster.has_all("orders", orders))
        # The clock has stood still: nothing waited for the rate to allow it.
        assert stored(cluster.follower("orders")) == b"".join(orders.batches)

    run(scenario)
