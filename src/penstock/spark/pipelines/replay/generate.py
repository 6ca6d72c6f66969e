"""What happens to the accounts of a small bank: each is opened, and then money comes and goes."""

import random
from collections.abc import Iterator

from penstock.spark.pipelines.generated import START_MS, Event, json_event

TOPIC = "replay.ledger"
ACCOUNTS = 1_000
PAUSE_MS = 700  # on average, between two events


def events(seed: int, *, start_ms: int = START_MS, accounts: int = ACCOUNTS) -> Iterator[Event]:
    """Endless, the same for the same seed. No account is ever overdrawn."""
    chance = random.Random(seed)
    balances: dict[str, int] = {}
    at_ms = start_ms
    number = 0
    while True:
        at_ms += int(chance.expovariate(1 / PAUSE_MS))
        account = f"a{_one_of(chance, accounts):05}"
        kind, cents = _happening(chance, balances.get(account))
        balances[account] = balances.get(account, 0) + (-cents if kind == "withdrawn" else cents)
        fields = {
            "event_id": f"l{number:09}",
            "kind": kind,
            "account": account,
            "amount_cents": cents,
            "at_ms": at_ms,
        }
        yield json_event(TOPIC, key=account, fields=fields, timestamp_ms=at_ms)
        number += 1


def _one_of(chance: random.Random, accounts: int) -> int:
    """A few accounts have most of the business."""
    return int(accounts * chance.random() ** 2)


def _happening(chance: random.Random, balance: int | None) -> tuple[str, int]:
    if balance is None:
        return "opened", 0
    if balance > 0 and chance.random() < 0.5:
        return "withdrawn", chance.randint(1, balance)
    return "deposited", int(chance.lognormvariate(9, 1)) + 1
