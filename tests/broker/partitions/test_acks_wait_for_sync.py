"""With `penstock.ack.fsync`, or once `flush.messages` is reached, only what is synced is acked."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.broker.api import produce as produce_api
from penstock.model.error import ErrorCode
from penstock.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from rig.data_requests import produce_request
from rig.produced import produced
from rig.raw_serving import until
from rig.services import Broker
from rig.watched_disk import WatchedDisk

FSYNC = {"penstock.ack.fsync": "true"}
Scenario = Callable[[Broker, WatchedDisk], Coroutine[Any, Any, None]]


def run(path: Path, scenario: Scenario) -> None:
    """On a broker whose syncs run as in a node."""

    async def whole() -> None:
        disk = WatchedDisk()
        broker = Broker(path, disk=disk)
        rounds = asyncio.create_task(broker.partitions.keep_syncing())
        try:
            await asyncio.wait_for(scenario(broker, disk), 120)
        finally:
            rounds.cancel()
            broker.close()

    asyncio.run(whole())


def send(
    broker: Broker, data: memoryview, *, acks: int = -1, topic: str = "t", timeout_ms: int = 10_000
) -> Awaitable[ProduceResponse] | ProduceResponse:
    request = produce_request(topic, data, acks=acks, timeout_ms=timeout_ms)
    answer = broker.send(produce_api.API, request, version=9)
    if not isinstance(answer, ProduceResponse):
        return asyncio.ensure_future(cast(Coroutine[Any, Any, ProduceResponse], answer))
    return answer


async def answered(
    sent: Awaitable[ProduceResponse] | ProduceResponse,
) -> PartitionProduceResponse:
    response = sent if isinstance(sent, ProduceResponse) else await sent
    return response.responses[0].partition_responses[0]


async def settle() -> None:
    """Whatever can go on without the disk does."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_acked_or_seen_before_its_sync(tmp_path: Path, acks: int) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config=FSYNC)
        disk.hold()
        sent = send(broker, produced(3), acks=acks)
        await settle()
        assert isinstance(sent, asyncio.Future) and not sent.done()
        assert broker.partition("t").high_watermark == 0
        disk.let_go()
        assert (await answered(sent)).error_code == ErrorCode.NONE
        assert broker.partition("t").high_watermark == 3
        assert broker.partition("t").log.recovery_point == 3

    run(tmp_path, scenario)


def test_the_ack_of_a_duplicate_waits_as_that_of_the_first(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config=FSYNC)
        disk.hold()
        sent = [
            send(broker, produced(2, producer_id=7, epoch=0, sequence=0), acks=acks)
            for acks in (-1, -1, 1)
        ]
        await settle()
        assert not any(cast(asyncio.Future[Any], one).done() for one in sent)
        disk.let_go()
        answers = [await answered(one) for one in sent]
        assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0)] * 3
        assert broker.partition("t").log.end_offset == 2

    run(tmp_path, scenario)


def test_all_who_wait_share_one_sync(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        for topic in ("t", "u"):
            broker.create_topic(topic, config=FSYNC)
        before = disk.syncs
        disk.hold()
        sent = [send(broker, produced(), topic="t")]
        await settle()
        sent += [send(broker, produced(), topic=topic) for topic in "tu" for _ in range(50)]
        await settle()
        disk.let_go()
        codes = {(await answered(one)).error_code for one in sent}
        assert codes == {ErrorCode.NONE}
        assert disk.syncs - before == 2  # the first one's, and that of all who came meanwhile

    run(tmp_path, scenario)


def test_late_syncs_time_out_and_the_records_stay(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config=FSYNC)
        disk.hold()
        late = await answered(send(broker, produced(), acks=1, timeout_ms=1))
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        disk.let_go()
        assert (await answered(send(broker, produced()))).base_offset == 1

    run(tmp_path, scenario)


def test_one_flush_message_is_as_good_as_fsync_acks(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config={"flush.messages": "1"})
        await answered(send(broker, produced(3), acks=1))
        assert broker.partition("t").log.recovery_point == 3

    run(tmp_path, scenario)


def test_the_append_that_reaches_flush_messages_waits(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t", config={"flush.messages": "3"})
        await settle()
        disk.hold()
        for _ in range(2):
            assert isinstance(send(broker, produced(), acks=1), ProduceResponse)
        third = send(broker, produced(), acks=1)
        await settle()
        assert isinstance(third, asyncio.Future) and not third.done()
        disk.let_go()
        assert (await answered(third)).base_offset == 2
        assert isinstance(send(broker, produced(), acks=1), ProduceResponse)

    run(tmp_path, scenario)


def test_fsync_acks_begin_and_end_with_the_setting(tmp_path: Path) -> None:
    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        broker.create_topic("t")
        assert isinstance(send(broker, produced(2)), ProduceResponse)
        broker.configure("t", FSYNC)
        assert (await answered(send(broker, produced()))).base_offset == 2
        assert broker.partition("t").log.recovery_point == 3
        broker.configure("t", {"penstock.ack.fsync": "false"})
        disk.hold()
        assert isinstance(send(broker, produced()), ProduceResponse)
        assert broker.partition("t").high_watermark == 4

    run(tmp_path, scenario)


def test_what_a_killed_node_left_unsynced_is_synced_before_it_is_seen(tmp_path: Path) -> None:
    first = Broker(tmp_path)
    first.create_topic("t")
    first.send(produce_api.API, produce_request("t", produced(4)), version=9)
    first.directory.abandon()

    async def scenario(broker: Broker, disk: WatchedDisk) -> None:
        disk.hold()
        broker.create_topic("t", config=FSYNC)
        await settle()
        partition = broker.partition("t")
        assert (partition.log.end_offset, partition.high_watermark) == (4, 0)
        disk.let_go()
        await until(lambda: partition.high_watermark == 4)

    run(tmp_path, scenario)
