"""Lines of long words, so that counts of few words fill a task, and how often each word came."""

import random
from collections import Counter
from collections.abc import Hashable, Mapping

from penstock.spark.pipelines.generated import START_MS, Event
from penstock.spark.pipelines.wordcount.names import LINES
from rig.stateful.truth import Truth

SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu")
SYLLABLES_PER_WORD = 20
WORDS_PER_LINE = 10
SPOKEN_SHARE = 0.93  # of all words in each batch
REPEATED_SHARE = 0.1


class WordCountStory:
    topics: Mapping[str, int] = {LINES: 2}

    def __init__(self, *, seed: int, words: int) -> None:
        self.truth = Truth()
        self._chance = random.Random(f"words {seed}")
        self._counts: Counter[str] = Counter()
        self._words = sorted({self._word() for _ in range(words)})

    def batch(self) -> list[Event]:
        chance, known = self._chance, self._words
        spoken = chance.sample(known, round(SPOKEN_SHARE * len(known)))
        spoken += chance.choices(known, k=round(REPEATED_SHARE * len(known)))
        self._counts.update(spoken)
        self.truth.note_batch({word.encode(): self._counts[word] for word in set(spoken)})
        lines = (
            " ".join(spoken[start : start + WORDS_PER_LINE])
            for start in range(0, len(spoken), WORDS_PER_LINE)
        )
        return [Event(LINES, None, f"{line.capitalize()}.".encode(), START_MS) for line in lines]

    def state_of(self, value: bytes) -> Hashable:
        return int(value)

    def _word(self) -> str:
        return "".join(self._chance.choices(SYLLABLES, k=SYLLABLES_PER_WORD))
