"""Lines of a text without end, in which few words are frequent and most are rare."""

import random
from collections.abc import Iterator

from penstock.spark.pipelines.generated import START_MS, Event
from penstock.spark.pipelines.wordcount.names import LINES

SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu")
WORDS = tuple(first + second + third for first in SYLLABLES for second in SYLLABLES
              for third in SYLLABLES)  # fmt: skip
WORDS_PER_LINE_MAX = 12
PAUSE_MS = 100


def events(seed: int, *, start_ms: int = START_MS) -> Iterator[Event]:
    chance = random.Random(seed)
    at_ms = start_ms
    while True:
        count = chance.randint(1, WORDS_PER_LINE_MAX)
        # By Zipf's law, roughly: the n-th word comes with a share of 1/n.
        words = [WORDS[int(len(WORDS) ** chance.random()) - 1] for _ in range(count)]
        line = " ".join(words).capitalize() + chance.choice(".,;!?")
        yield Event(LINES, None, line.encode(), at_ms)
        at_ms += chance.randrange(2 * PAUSE_MS)
