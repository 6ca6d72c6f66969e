"""Only who asks for two-phase commit, and may have it, gets transactions without a time-out."""

import pytest

from penstock.model.error import ErrorCode
from penstock.model.settings.transactions import TransactionSettings
from penstock.transactions.state import TWO_PHASE_TIMEOUT_MS
from rig.transactions import Client, Coordinator

LONGEST_MS = TWO_PHASE_TIMEOUT_MS - 1


@pytest.fixture
def client() -> Client:
    """Its coordinator allows any time-out that can be asked for."""
    settings = TransactionSettings(transaction_max_timeout_ms=TWO_PHASE_TIMEOUT_MS)
    return Client(coordinator=Coordinator(settings))


def test_longest_time_out_is_one(client: Client) -> None:
    client.timeout_ms = LONGEST_MS
    assert client.init() is ErrorCode.NONE
    client.add("orders-0")
    client.coordinator.pass_time(LONGEST_MS)
    assert client.coordinator.state() == "PrepareAbort"


def test_time_out_that_stands_for_none_cannot_be_asked_for(client: Client) -> None:
    client.timeout_ms = TWO_PHASE_TIMEOUT_MS
    assert client.init() is ErrorCode.INVALID_TRANSACTION_TIMEOUT
