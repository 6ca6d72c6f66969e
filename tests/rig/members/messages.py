"""The words between a test and a member's process: commands come in, what happens goes out."""

import json
import queue
import sys
import threading
from collections.abc import Iterable
from typing import Any


def settings() -> dict[str, str]:
    """As the test gave them, by Kafka's names; `topic` is the one to read."""
    given: dict[str, str] = json.loads(sys.argv[1])
    return given


def commands() -> "queue.SimpleQueue[str]":
    """What the test says, as it comes; the end of its input means close."""
    words: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            words.put(line.strip())
        words.put("close")

    threading.Thread(target=listen, daemon=True).start()
    return words


class Commands:
    """`stalled` says whether to stop polling for now; `closing` ends the loop."""

    def __init__(self) -> None:
        self._words = commands()
        self.stalled = False
        self.closing = False

    def look(self, *, wait_seconds: float = 0.0) -> None:
        try:
            word = self._words.get(wait_seconds > 0, wait_seconds)
        except queue.Empty:
            return
        self.stalled = word == "stall" or (self.stalled and word != "resume")
        self.closing = word == "close"


def tell_owned(partitions: Iterable[int]) -> None:
    tell(owned=sorted(partitions))


def tell_read(positions: Iterable[tuple[int, int]]) -> None:
    tell(read=list(positions))


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)
