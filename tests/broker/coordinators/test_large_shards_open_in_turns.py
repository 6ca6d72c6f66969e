"""A shard with very many members, or transactional ids, opens in turns, and decides nothing before
the last one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.coordinators import led_shard
from penstock.broker.coordinators.group_coordinator import Ourselves
from penstock.broker.coordinators.led_shard import SESSIONS_PER_TURN
from penstock.broker.coordinators.led_shards import STEPS_PER_TURN
from penstock.broker.coordinators.partition_journal import Place
from penstock.broker.coordinators.transaction_coordinator import transaction_batch
from penstock.groups.records import ClassicGroupStored
from penstock.groups.shard import GroupShard
from penstock.groups.timers import SessionEnds
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import ProducerEpoch, ProducerId, TopicPartition
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.model.offset import Offset
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.transactions.describe import DescribeTransaction
from penstock.transactions.records import TransactionStored
from penstock.transactions.state import Transaction, TransactionState
from penstock.transactions.timers import TransactionEnds
from penstock.wire.header import RequestHeader
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)
from penstock.wire.messages.heartbeat import HeartbeatRequest
from penstock.world.ports import Address
from rig.elected_groups import elected_groups, write_group_journal
from rig.produced import NOW_MS
from rig.services import Broker

PATIENCE_SECONDS = 60
MEMBER = "member"
CLIENT = Ourselves(
    header=RequestHeader(api_key=12, api_version=4, correlation_id=1, client_id="client"),
    peer=Address(host="127.0.0.1", port=1),
)
ONGOING, DECIDED = TransactionState.ONGOING, TransactionState.PREPARE_COMMIT
ORDERS = TopicPartition("orders", 0)


def stable_group(name: str) -> ClassicGroupStored:
    member = MemberMetadata(
        member_id=MEMBER,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=45_000,
    )
    return ClassicGroupStored(
        group=name,
        value=GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader=MEMBER,
            members=[member],
        ),
    )


async def opened(
    ask: Callable[[], object], begun: Callable[[], int | None], *, whole: int
) -> list[int]:
    """How far the shard had come in each turn in which a request was refused; whoever is answered
    finds it whole.
    """
    seen = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            count = begun()
            try:
                reply = ask()
            except RequestError as refusal:
                assert refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                if count is not None:
                    seen.append(count)
            else:
                if isinstance(reply, Awaitable):
                    await reply
                assert begun() == whole
                return seen
            await asyncio.sleep(0)


def turns_of_groups(tmp_path: Path, count: int) -> list[int]:
    async def scenario(broker: Broker) -> list[int]:
        names = [f"group{number}" for number in range(count)]
        write_group_journal(broker, [[stable_group(name) for name in names]])
        groups = elected_groups(broker)
        running = asyncio.create_task(groups.run())

        def sessions_in(shard: GroupShard) -> int:
            keys = (SessionEnds(group=name, member=MEMBER) for name in names)
            return sum(shard.deadlines.at(key) is not None for key in keys)

        def begun() -> int | None:
            return next(map(sessions_in, groups.shards), None)

        beat = HeartbeatRequest(group_id=names[0], generation_id=1, member_id=MEMBER)
        seen = await opened(lambda: groups.ask(names[0], beat, CLIENT), begun, whole=count)
        groups.check()
        groups.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    broker = Broker(tmp_path)
    seen = asyncio.run(scenario(broker))
    broker.close()
    return seen


def test_sessions_of_many_members_begin_in_turns(tmp_path: Path) -> None:
    turns = 4
    seen = turns_of_groups(tmp_path, turns * SESSIONS_PER_TURN // 2)
    assert len(set(seen)) == turns - 1
    assert all(count > 0 for count in seen)


def test_others_are_looked_at_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline tells that there are sessions to begin."""
    monkeypatch.setattr(led_shard, "SESSIONS_PER_TURN", 2)
    count = 2 * STEPS_PER_TURN + 10
    assert len(set(turns_of_groups(tmp_path, count))) == count - 1


def test_sessions_of_some_members_begin_at_once(tmp_path: Path) -> None:
    assert turns_of_groups(tmp_path, SESSIONS_PER_TURN // 2) == []


def stored(
    name: str, number: int, state: TransactionState, *, now_ms: int = NOW_MS
) -> TransactionStored:
    transaction = Transaction(
        transactional_id=name,
        producer_id=ProducerId(number),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=3_600_000,
        state=state,
        partitions=(ORDERS,),
        start_ms=now_ms,
        last_update_ms=now_ms,
    )
    return TransactionStored(transactional_id=name, value=transaction)


def lead(broker: Broker, records: Sequence[TransactionStored]) -> None:
    broker.create_topic(ORDERS.topic)
    broker.create_topic(TRANSACTION_TOPIC)
    partition = broker.partition(TRANSACTION_TOPIC)
    place = Place(base_offset=Offset(0), leader_epoch=partition.leader_epoch, now_ms=NOW_MS)
    written = transaction_batch(records, place)
    partition.append(memoryview(written), all_acks=True, now_ms=NOW_MS)
    image = broker.services.image
    created = Delta(topics_created=(image.topics_by_name[TRANSACTION_TOPIC],))
    broker.services.transactions.apply(created, image, broker.settings.transactions)


def test_many_transactions_are_resumed_in_turns(tmp_path: Path) -> None:
    turns = 3
    names = [f"id{number}" for number in range(turns * TRANSACTIONAL_IDS_PER_STEP)]

    async def scenario(broker: Broker) -> list[int]:
        now_ms = broker.world.clock.now_ms()
        lead(
            broker,
            [stored(name, number, ONGOING, now_ms=now_ms) for number, name in enumerate(names)],
        )
        transactions = broker.services.transactions
        running = asyncio.create_task(transactions.run())

        def begun() -> int | None:
            for shard in transactions.shards:
                keys = map(TransactionEnds, names)
                return sum(shard.deadlines.at(key) is not None for key in keys)
            return None

        ask = partial(
            transactions.ask, names[-1], DescribeTransaction(transactional_id=names[-1]), version=0
        )
        seen = await opened(ask, begun, whole=len(names))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    broker = Broker(tmp_path)
    seen = asyncio.run(scenario(broker))
    broker.close()
    assert len(set(seen)) == turns - 1


def test_decided_transactions_are_completed_in_turns(tmp_path: Path) -> None:
    names = [f"id{number}" for number in range(2 * TRANSACTIONAL_IDS_PER_STEP + 1)]

    async def scenario(broker: Broker) -> None:
        lead(broker, [stored(name, number, DECIDED) for number, name in enumerate(names)])
        transactions = broker.services.transactions
        running = asyncio.create_task(transactions.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await asyncio.sleep(0.01)
                shards = list(transactions.shards)
                if shards and not shards[0].unmarked:
                    break
        [shard] = shards
        assert len(shard.transactions) == len(names)
        transactions.check()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    broker = Broker(tmp_path)
    asyncio.run(scenario(broker))
    broker.close()
