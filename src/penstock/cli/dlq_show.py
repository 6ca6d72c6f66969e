"""What `penstock dlq` prints."""

import json
from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

from penstock.cli.dlq_read import Found, FoundLetter
from penstock.cli.dlq_replay import Replayed
from penstock.cli.escape import escaped, escaped_json
from penstock.cli.record_lines import json_fields
from penstock.cli.show import print_table, say

Reason = TypeVar("Reason", bound=Hashable)

PREVIEW_CHARACTERS = 40
UNKNOWN = "(no reason told)"


def show_found(found: Found) -> None:
    print_table(
        ("partition", "offset", "came from", "attempt", "reason", "key", "value"),
        (
            (
                one.record.partition,
                one.record.offset,
                source_text(one),
                one.letter.attempt,
                f"{one.letter.reason or UNKNOWN}{' (replayed)' if one.replayed else ''}",
                preview(one.record.key),
                preview(one.record.value),
            )
            for one in found.letters
        ),
        wrapped=("reason",),
    )
    hidden = found.counts.total() - len(found.letters)
    if hidden:
        say(f"... and {hidden} more: see --limit")


def show_counts(counts: Counter[str]) -> None:
    print_table(
        ("letters", "reason"),
        ((count, reason or UNKNOWN) for reason, count in by_count(counts)),
        title=_letters(counts.total()),
        wrapped=("reason",),
    )


def show_replayed(done: Replayed, *, dry_run: bool) -> None:
    if done.counts:
        print_table(
            ("letters", "to", "reason"),
            ((count, topic, reason or UNKNOWN) for (topic, reason), count in by_count(done.counts)),
            wrapped=("reason",),
        )
    said = f"{'would replay' if dry_run else 'replayed'} {_letters(done.total)}"
    if done.left:
        said += f"; {done.left} others wait on"
    if done.without_source:
        said += f"; {done.without_source} do not tell where they came from: give --to"
    if done.gone:
        topics = ", ".join(topic for topic, _ in by_count(done.gone))
        said += f"; {done.gone.total()} wait for topics that are not there ({topics}): give --to"
    say(said)


def json_line(one: FoundLetter) -> bytes:
    fields = json_fields(one.record) | {
        "source_topic": one.letter.topic,
        "source_partition": one.letter.partition,
        "source_offset": one.letter.offset,
        "source_timestamp_ms": one.letter.timestamp_ms,
        "reason": one.letter.reason,
        "attempt": one.letter.attempt,
        "replayed": one.replayed,
    }
    return escaped_json(json.dumps(fields, ensure_ascii=False)).encode() + b"\n"


def source_text(one: FoundLetter) -> str | None:
    letter = one.letter
    if letter.topic is None:
        return None
    return f"{letter.topic}-{letter.partition} at {letter.offset}"


def preview(content: bytes | None) -> str | None:
    """The beginning, in one line; what can't be shown is escaped."""
    if content is None:
        return None
    text = content[: PREVIEW_CHARACTERS * 4].decode("utf-8", "backslashreplace")
    shown = escaped(text)
    cut = len(shown) > PREVIEW_CHARACTERS or len(content) > PREVIEW_CHARACTERS * 4
    return f"{shown[:PREVIEW_CHARACTERS]}..." if cut else shown


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"


def by_count(counts: Counter[Reason]) -> list[tuple[Reason, int]]:
    """The most frequent first."""
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
