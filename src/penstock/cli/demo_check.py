"""What the demo writes, and whether that is what it reads. Pure.

Record i has the key of i modulo KEYS and the value i, so that the values of one key must come back
growing by KEYS.
"""

from collections.abc import Iterator

KEYS = 10_000
PADDING = b"." * 80


def expected_records(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values, in the order in which they are written."""
    keys = [b"key-%d" % number for number in range(KEYS)]
    return ((keys[number % KEYS], b"%d %b" % (number, PADDING)) for number in range(count))


class OrderCheck:
    """Takes records as they are read, in order within each partition."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._last: dict[bytes, int] = {}
        self._home: dict[bytes, int] = {}
        self._error: str | None = None

    @property
    def keys(self) -> int:
        return len(self._last)

    def take(self, partition: int, key: bytes, value: bytes) -> None:
        number = int(value.partition(b" ")[0])
        before = self._last.get(key, int(key.removeprefix(b"key-")) - KEYS)
        self.count += 1
        self.bytes += len(key) + len(value)
        self._last[key] = number
        if self._error is None and number != before + KEYS:
            self._error = f"{key.decode()}: record {number} came after record {before}"
        if self._error is None and self._home.setdefault(key, partition) != partition:
            self._error = f"{key.decode()} is in two partitions"

    def error(self, count: int) -> str | None:
        """What is wrong after all was read; None when all is as it was written."""
        if self._error is not None:
            return self._error
        if self.count != count:
            return f"{self.count} records came back of {count}"
        return None
