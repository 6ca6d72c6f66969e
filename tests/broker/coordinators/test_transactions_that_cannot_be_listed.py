"""A list of transactions is whole, or says in words that clients know why it cannot be."""

import asyncio

import pytest

from penstock.metadata.image.image import Delta
from penstock.model.error import ErrorCode, RequestError
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.transactions.describe import filters_of
from penstock.wire.messages.list_transactions import ListTransactionsRequest
from rig.produced import NOW_MS, produced
from rig.services import Broker

ALL = filters_of(ListTransactionsRequest())


async def refusals_until_loaded(broker: Broker) -> list[ErrorCode]:
    """What the list is refused with, until that changes no more."""
    transactions = broker.services.transactions
    running = asyncio.create_task(transactions.run())
    codes: list[ErrorCode] = []
    while not codes or codes[-1] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        with pytest.raises(RequestError) as refused:
            await transactions.list_all(ALL, version=2)
        codes.append(refused.value.code)
        await asyncio.sleep(0)
    running.cancel()
    return codes


def test_a_journal_that_cannot_be_read_is_not_passed_over(broker: Broker) -> None:
    broker.create_topic(TRANSACTION_TOPIC, 2)
    damaged = broker.partition(TRANSACTION_TOPIC, 1)
    damaged.append(produced(key=b"\0\0 cut off"), all_acks=True, now_ms=NOW_MS)
    image = broker.services.image
    created = Delta(topics_created=(image.topics_by_name[TRANSACTION_TOPIC],))
    broker.services.transactions.apply(created, image, broker.settings.transactions)
    codes = asyncio.run(refusals_until_loaded(broker))
    assert codes[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert codes[-1] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.services.transactions.close()
