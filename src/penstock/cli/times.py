"""Times and durations as they are typed."""

import re
from datetime import UTC, datetime

MS_OF_UNITS = (86_400_000, 3_600_000, 60_000, 1_000)
SHORT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def parse_time_ms(text: str) -> int:
    """ISO 8601, UTC where it names no zone, or @ and milliseconds since 1970. Else ValueError."""
    if re.fullmatch(r"@\d+", text):
        return int(text[1:])
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """`2d`, `1h30m`, `90s`, or as Kafka's tools want it, `PT1H30M`. Else ValueError."""
    found = (ISO if text.startswith("P") else SHORT).fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(text)
    counts = zip(found.groups(), MS_OF_UNITS, strict=True)
    return sum(int(count or 0) * unit_ms for count, unit_ms in counts)


def duration_text(duration_ms: int) -> str:
    """Two units are enough: `3d 4h`, `1m 5s`, `0.250s`."""
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.3f}s" if duration_ms else "0s"
    seconds = duration_ms // 1000
    for unit_seconds, unit, part_seconds, part in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds}{unit} {seconds % unit_seconds // part_seconds}{part}"
    raise AssertionError(duration_ms)
