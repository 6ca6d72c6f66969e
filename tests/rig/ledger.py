"""What the views of a ledger must show, told by a plain loop over its events."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.consume.fetched_data import ConsumedRecord
from penstock.spark.pipelines.generated import Event


@dataclass(slots=True)
class Account:
    balance_cents: int = 0
    events: int = 0


def folded(events: Iterable[Event]) -> dict[str, Account]:
    accounts: dict[str, Account] = {}
    for event in events:
        fields = json.loads(event.value or b"")
        account = accounts.setdefault(fields["account"], Account())
        sign = -1 if fields["kind"] == "withdrawn" else 1
        account.balance_cents += sign * fields["amount_cents"]
        account.events += 1
    return accounts


def shown(records: Iterable[ConsumedRecord]) -> dict[str, Account]:
    """A view as its topic tells it. Nothing in it goes back, and no row is there twice."""
    accounts: dict[str, Account] = {}
    reached: dict[str, int] = {}
    for record in records:
        row: Mapping[str, object] = json.loads(record.value or b"")
        name, offset = str(row["account"]), row["last_offset"]
        assert isinstance(offset, int)
        assert offset > reached.get(name, -1), f"{name} was shown twice up to {offset}"
        reached[name] = offset
        balance, events = row["balance_cents"], row["events"]
        assert isinstance(balance, int) and isinstance(events, int)
        accounts[name] = Account(balance, events)
    return accounts
