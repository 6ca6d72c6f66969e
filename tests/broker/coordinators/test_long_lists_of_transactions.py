"""A list of many transactional ids keeps no other client waiting."""

import asyncio
import random
from collections.abc import Awaitable, Sequence
from typing import cast

import pytest

from penstock.broker.api import list_transactions
from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import ProducerEpoch, ProducerId
from penstock.model.limit import TRANSACTIONAL_IDS_PER_STEP
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.records.build import build_batch
from penstock.records.record import Record
from penstock.transactions.records import encode, stored
from penstock.transactions.state import Transaction, TransactionState
from penstock.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from rig.produced import NOW_MS
from rig.services import Broker

STEPS = 5
COUNT = STEPS * TRANSACTIONAL_IDS_PER_STEP


def transaction(number: int, transactional_id: str) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=ProducerId(number),
        producer_epoch=ProducerEpoch(0),
        timeout_ms=60_000,
        state=TransactionState.EMPTY,
        last_update_ms=NOW_MS,
    )


def lead(broker: Broker, ids: Sequence[str]) -> None:
    """The broker coordinates these ids, all of one shard."""
    broker.create_topic(TRANSACTION_TOPIC)
    written = build_batch(
        [
            Record(*encode(stored(transaction(number, name))), timestamp_ms=NOW_MS)
            for number, name in enumerate(ids)
        ]
    )
    broker.partition(TRANSACTION_TOPIC).append(memoryview(written), all_acks=True, now_ms=NOW_MS)
    image = broker.services.image
    created = Delta(topics_created=(image.topics_by_name[TRANSACTION_TOPIC],))
    broker.services.transactions.apply(created, image, broker.settings.transactions)


async def list_all(broker: Broker, pattern: str | None = None) -> ListTransactionsResponse | None:
    """None while they are being loaded."""
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    response = broker.send(list_transactions.API, request, version=2)
    try:
        reply = await cast(Awaitable[ListTransactionsResponse], response)
    except RequestError as refusal:
        if refusal.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        await asyncio.sleep(0)
        return None
    return reply


def test_others_get_their_turn_while_it_is_made(broker: Broker) -> None:
    async def scenario() -> tuple[int, ListTransactionsResponse]:
        running = asyncio.create_task(broker.services.transactions.run())
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        reply = None
        while reply is None:
            turns = 0
            reply = await list_all(broker)
        beside.cancel()
        running.cancel()
        return turns, reply

    lead(broker, [f"t{number}" for number in range(COUNT)])
    turns, reply = asyncio.run(scenario())
    broker.services.transactions.close()
    assert len(reply.transaction_states) == COUNT
    assert turns >= STEPS


def test_a_pattern_has_one_bound_for_all_ids(broker: Broker) -> None:
    """Each of these alone would be matched within it."""

    async def scenario() -> None:
        running = asyncio.create_task(broker.services.transactions.run())
        try:
            while await list_all(broker, "(a|b)*a(a|b){120}(a|b)*(aa|ba){100}[ab]*c") is None:
                pass
        finally:
            running.cancel()

    chance = random.Random(1)
    lead(broker, ["".join(chance.choices("ab", k=200)) for _ in range(100)])
    with pytest.raises(RequestError) as refused:
        asyncio.run(scenario())
    broker.services.transactions.close()
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
