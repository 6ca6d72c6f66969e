"""What the shop's generator has made on purpose that is no event."""

import json
from datetime import datetime

from penstock.spark.pipelines.generated import Event

DAY_MS = 86_400_000


def is_sound(event: Event) -> bool:
    """It is JSON, and of the days around its record's timestamp."""
    try:
        fields = json.loads(event.value or b"")
    except ValueError:
        return False
    times = [fields[name] for name in ("at", "ordered_at") if name in fields]
    return all(
        abs(datetime.fromisoformat(time).timestamp() * 1000 - event.timestamp_ms) < DAY_MS
        for time in times
    )
