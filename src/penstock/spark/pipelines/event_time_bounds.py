"""How far an event's own time may lie from the timestamp that the log has for its record. Pure.

A watermark follows the latest event time that it has seen and never goes back, so one event of the
year 2099 would make all later ones late, and Spark drops late rows without a word. Such an event is
therefore no event: it becomes a dead letter (`event_time.py`). ADR 28 says why it is compared with
the record's timestamp, and what bounds that one.

A query whose watermark stands only minutes behind has a bound of its own, `Lateness`: what is later
becomes a dead letter for this query. ADR 58 says why the watermark passes no good event then.
"""

from dataclasses import dataclass

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MS_MAX = 2**53  # more than 280,000 years: what is added to a timestamp does not overflow
UNITS = ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute"), (1_000, "second"))

# Brokers refuse CreateTime records that are further ahead of their clock (Kafka's default of
# message.timestamp.after.max.ms): a record beyond it comes from brokers that do not check.
RECORD_AHEAD_MS_MAX = HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimeBounds:
    """Relative to the record's timestamp; both bounds are still good."""

    ahead_ms_max: int = 5 * MINUTE_MS
    behind_ms_max: int = 30 * DAY_MS

    def __post_init__(self) -> None:
        assert 0 <= self.ahead_ms_max <= MS_MAX
        assert 0 <= self.behind_ms_max <= MS_MAX

    def too_late(self, field: str) -> str:
        """The reason for an event whose time lies too far ahead."""
        return f"field {field} is more than {span(self.ahead_ms_max)} after the record's timestamp"

    def too_early(self, field: str) -> str:
        span_text = span(self.behind_ms_max)
        return f"field {field} is more than {span_text} before the record's timestamp"


DEFAULT_BOUNDS = EventTimeBounds()

# So far out of the order of their timestamps may records be read: brokers take what is dated two
# minutes ahead of their clock, and producers try for two minutes to send a record
# (delivery.timeout.ms). Backlogs are read in this order (maxOffsetsPerTriggerBy=timestamp).
DISORDER_MS_MAX = 5 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How long after an event its record may come, for a query that can't wait for 30 days."""

    late_ms_max: int  # still good
    outputs: str  # what it is too late for, in a reason

    def __post_init__(self) -> None:
        assert 0 <= self.late_ms_max <= MS_MAX

    def watermark_ms(self, bounds: EventTimeBounds) -> int:
        """The delay of a watermark that no good event is behind. The event that moved it may have
        been ahead of its record, and this record may be read before older ones.
        """
        # Spark drops what is not after its watermark: hence one more.
        return self.late_ms_max + bounds.ahead_ms_max + DISORDER_MS_MAX + 1

    def reason(self, field: str) -> str:
        return (
            f"field {field} is more than {span(self.late_ms_max)} before its record came:"
            f" too late for {self.outputs}"
        )


def span(duration_ms: int) -> str:
    """In the largest unit that has it whole: `5 minutes`, `1 day`, `1500 milliseconds`."""
    for unit_ms, unit in (*UNITS, (1, "millisecond")):
        if duration_ms % unit_ms == 0 and (duration_ms or unit_ms == 1_000):
            count = duration_ms // unit_ms
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    raise AssertionError(duration_ms)
