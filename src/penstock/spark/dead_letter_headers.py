"""The headers of a dead letter: where a record came from, why it is here, and how often it was
tried.

    penstock.dlq.topic, .partition, .offset   the record that was read; numbers as decimal text
    penstock.dlq.timestamp                    the record's, in milliseconds
    penstock.dlq.reason                       one sentence
    penstock.dlq.attempt                      1, and one more each time that it was replayed in vain
    penstock.dlq.counted                      true: some queries have counted the record, and those
                                              with windows have not, since it came too late
    penstock.dlq.replayed-at                  of a replayed record: when, in milliseconds

Key, value and all other headers of a letter are those of the record. Its timestamp is that of its
writing, for retention goes by it: a letter is kept as long as its topic says, however old the
record is. When it is replayed the record has its own timestamp again, or that of the replay if its
own lies ahead of it, which brokers refuse. The attempt stays with it, and so does `counted`, by
which a query knows not to count it again; the other headers of ours go.

A replay notes in the dead-letter topic itself which letters are done with: a receipt has no key
and no value, and `penstock.dlq.replayed` holds the offsets of its own partition as ranges, `4-7,9`
being 4, 5, 6, 7 and 9.
"""

import re
from dataclasses import dataclass

from penstock.model.offset import Offset
from penstock.records.record import Headers

PREFIX = "penstock.dlq."
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
TIMESTAMP = PREFIX + "timestamp"
REASON = PREFIX + "reason"
ATTEMPT = PREFIX + "attempt"
COUNTED = PREFIX + "counted"
REPLAYED_AT = PREFIX + "replayed-at"
REPLAYED = PREFIX + "replayed"
KEPT = (ATTEMPT, COUNTED)

TIMESTAMP_MS_MAX = 2**63 - 1
RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
Ranges = tuple[range, ...]  # of offsets, in order, none empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What its headers tell. None: they don't, for anyone may write to a dead-letter topic."""

    topic: str | None
    partition: int | None
    offset: Offset | None
    timestamp_ms: int | None
    reason: str | None
    attempt: int | None


def letter_of(headers: Headers) -> Letter | Ranges:
    """The letter that a record is; or, of a receipt, what it says was replayed."""
    ours = {name: value for name, value in headers if name.startswith(PREFIX)}
    if REPLAYED in ours:
        return parse_ranges(_text(ours[REPLAYED]) or "")
    offset, timestamp_ms = _number(ours.get(OFFSET)), _number(ours.get(TIMESTAMP))
    if timestamp_ms is not None and timestamp_ms > TIMESTAMP_MS_MAX:
        timestamp_ms = None
    return Letter(
        topic=_text(ours.get(TOPIC)),
        partition=_number(ours.get(PARTITION)),
        offset=None if offset is None else Offset(offset),
        timestamp_ms=timestamp_ms,
        reason=_text(ours.get(REASON)),
        attempt=_number(ours.get(ATTEMPT)),
    )


def replayed_headers(headers: Headers, *, now_ms: int) -> Headers:
    """Those of the record as it was; the attempt, so that the next one is counted on; and the time,
    by which a query with windows knows that the record may come too late.
    """
    kept = tuple(
        (name, value) for name, value in headers if name in KEPT or not name.startswith(PREFIX)
    )
    return (*kept, (REPLAYED_AT, b"%d" % now_ms))


def receipt_headers(replayed: Ranges) -> Headers:
    return ((REPLAYED, ranges_text(replayed).encode()),)


def ranges_text(ranges: Ranges) -> str:
    return ",".join(
        f"{one.start}" if len(one) == 1 else f"{one.start}-{one.stop - 1}" for one in ranges
    )


def parse_ranges(text: str) -> Ranges:
    """What is no range is passed over: then a letter waits on, which is better than to lose one."""
    found = (RANGE.fullmatch(part) for part in text.split(","))
    ends = [(int(one[1]), int(one[2] or one[1])) for one in found if one is not None]
    return tuple(range(first, last + 1) for first, last in ends if first <= last)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _number(value: bytes | None) -> int | None:
    text = _text(value)
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
