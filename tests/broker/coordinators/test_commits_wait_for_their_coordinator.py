"""A commit that comes while its coordinator loads is answered when it has, in its turn."""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.coordinators import load_waits
from penstock.broker.coordinators.group_coordinator import GroupCoordinator, Ourselves
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.groups.records import OffsetCommitted, OffsetValue
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode, RequestError
from penstock.model.offset import LeaderEpoch
from penstock.wire.header import RequestHeader
from penstock.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from penstock.world.ports import Address
from rig.elected_groups import elected_groups, write_group_journal
from rig.offset_requests import NAMED, commit_request
from rig.services import Broker

PATIENCE_SECONDS = 60
BATCHES = 1_000  # read in several turns
GROUP = "billing"
ORDERS = ("orders", 0)
CLIENT = Ourselves(
    header=RequestHeader(api_key=8, api_version=NAMED, correlation_id=1, client_id="client"),
    peer=Address(host="127.0.0.1", port=1),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """The journal has many commits of the group, and nobody has read it yet."""
    broker = Broker(tmp_path)
    broker.create_topic(ORDERS[0])
    now_ms = broker.world.clock.now_ms()
    write_group_journal(broker, ([committed_at(offset, now_ms)] for offset in range(BATCHES)))
    yield broker
    broker.close()


def committed_at(offset: int, now_ms: int) -> OffsetCommitted:
    value = OffsetValue(offset=offset, leader_epoch=None, metadata="", commit_timestamp_ms=now_ms)
    return OffsetCommitted(GROUP, *ORDERS, value)


def commit(groups: GroupCoordinator, offset: int) -> Any:
    request: OffsetCommitRequest = commit_request(GROUP, {ORDERS: offset})
    return groups.ask_once_loaded(GROUP, request, CLIENT)


def code_of(reply: OffsetCommitResponse) -> int:
    [topic] = reply.topics
    [partition] = topic.partitions
    return partition.error_code


def committed(groups: GroupCoordinator) -> int | None:
    for shard in groups.shards:
        return shard.offsets.of_group(GROUP)[ORDERS[0]][ORDERS[1]].offset
    return None


def test_commits_are_answered_when_the_coordinator_has_loaded_and_in_their_order(
    broker: Broker,
) -> None:
    async def scenario() -> None:
        groups = elected_groups(broker)
        waiting = [asyncio.create_task(_awaited(commit(groups, 2_000 + n))) for n in range(3)]
        running = asyncio.create_task(groups.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if committed(groups) is not None:
                    break
                await asyncio.sleep(0)
            # It has opened just now. What comes is not decided before those that wait.
            last = await _awaited(commit(groups, 3_000))
            replies = [*await asyncio.gather(*waiting), last]
        assert [code_of(reply) for reply in replies] == [ErrorCode.NONE] * 4
        assert committed(groups) == 3_000
        groups.check()
        groups.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_commit_is_refused_when_it_has_waited_for_long(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_waits, "LOAD_WAIT_MS_MAX", 20)

    async def scenario() -> None:
        groups = elected_groups(broker)
        for _ in range(2):  # the first leaves nothing behind for which the second would wait
            with pytest.raises(RequestError) as refused:
                await commit(groups, 2_000)
            assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups.close()

    asyncio.run(scenario())


def test_a_commit_that_waits_learns_that_another_broker_coordinates_its_group(
    broker: Broker,
) -> None:
    async def scenario() -> None:
        groups = elected_groups(broker)
        waiting = asyncio.create_task(_awaited(commit(groups, 2_000)))
        await asyncio.sleep(0)
        topic = broker.services.image.topics_by_name[OFFSETS_TOPIC]
        [partition] = topic.partitions
        moved = replace(
            topic,
            partitions=(
                replace(
                    partition,
                    leader=None,
                    leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
                    partition_epoch=partition.partition_epoch + 1,
                ),
            ),
        )
        broker.change_topic(moved)
        image = broker.services.image
        groups.apply(Delta(topics_changed=(moved,)), image, broker.settings.groups)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(RequestError) as refused:
                await waiting
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
        groups.close()

    asyncio.run(scenario())


async def _awaited(reply: Any) -> Any:
    return await reply if isinstance(reply, Awaitable) else reply
