"""What `penstock transactions` shows: tables for people, values for JSON."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from penstock.cli.groups_show import scopes
from penstock.cli.show import print_table
from penstock.cli.times import duration_text
from penstock.client.admin.hanging_transactions import Suspect
from penstock.client.admin.transaction_listing import ListedTransaction, TransactionDescription

NO_TIMEOUT = "none (two-phase)"


def show_listed(found: Iterable[ListedTransaction]) -> None:
    print_table(
        ("transactional id", "state", "producer", "coordinator"),
        ((one.transactional_id, one.state, one.producer_id, one.coordinator) for one in found),
    )


def listed_value(one: ListedTransaction) -> dict[str, object]:
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "coordinator": one.coordinator,
    }


def show_described(found: Sequence[TransactionDescription], *, now_ms: int) -> None:
    print_table(
        (
            "transactional id",
            "state",
            "producer",
            "epoch",
            "coordinator",
            "since",
            "open for",
            "time-out",
            "partitions",
        ),
        (
            (
                one.transactional_id,
                one.state,
                one.producer_id,
                one.epoch,
                one.coordinator,
                moment_text(one.start_ms),
                age_text(one.start_ms if one.is_open else None, now_ms=now_ms),
                NO_TIMEOUT if one.timeout_ms is None else duration_text(one.timeout_ms),
                scopes(one.partitions) or "-",
            )
            for one in found
        ),
    )


def described_value(one: TransactionDescription, *, now_ms: int) -> dict[str, object]:
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.epoch,
        "coordinator": one.coordinator,
        "start_ms": one.start_ms,
        "open_ms": _age_ms(one.start_ms if one.is_open else None, now_ms=now_ms),
        "timeout_ms": one.timeout_ms,
        "two_phase": one.timeout_ms is None,
        "partitions": [list(place) for place in one.partitions],
    }


def show_hanging(found: Sequence[Suspect], *, now_ms: int) -> None:
    print_table(
        (
            "topic",
            "partition",
            "start offset",
            "producer",
            "epoch",
            "open for",
            "transactional id",
            "why",
        ),
        (
            (
                *one.open.partition,
                one.open.start_offset,
                one.open.producer_id,
                one.open.epoch,
                age_text(one.open_since_ms(), now_ms=now_ms),
                None if one.known is None else one.known.transactional_id,
                reason(one),
            )
            for one in found
        ),
        wrapped=("why",),
    )


def hanging_value(one: Suspect, *, now_ms: int) -> dict[str, object]:
    return {
        "topic": one.open.partition.topic,
        "partition": one.open.partition.partition,
        "start_offset": one.open.start_offset,
        "producer_id": one.open.producer_id,
        "producer_epoch": one.open.epoch,
        "open_ms": _age_ms(one.open_since_ms(), now_ms=now_ms),
        "transactional_id": None if one.known is None else one.known.transactional_id,
        "hangs": one.hangs,
        "reason": reason(one),
    }


def reason(one: Suspect) -> str:
    """Why nobody ends it, or why not yet."""
    if one.known is None:
        return "no coordinator knows the producer"
    if one.hangs:
        return f"not in the transaction of its coordinator ({one.known.state})"
    if one.known.timeout_ms is None:
        return "waits for the decision of a two-phase commit"
    return "open for long: its coordinator will end it"


def moment_text(moment_ms: int | None) -> str | None:
    if moment_ms is None:
        return None
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age_text(since_ms: int | None, *, now_ms: int) -> str | None:
    age_ms = _age_ms(since_ms, now_ms=now_ms)
    return None if age_ms is None else duration_text(age_ms)


def _age_ms(since_ms: int | None, *, now_ms: int) -> int | None:
    """Clocks differ: what began in the future has just begun."""
    return None if since_ms is None else max(now_ms - since_ms, 0)
