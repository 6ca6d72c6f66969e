"""Randomness from the seed: one stream for each use, so that more of one moves no other."""

from random import Random


def stream(seed: int, use: str) -> Random:
    """The numbers of one use. A text seeds through SHA-512, so no process differs from another."""
    return Random(f"penstock {seed} {use}")


class SimEntropy:
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def random_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def random_below(self, bound: int) -> int:
        assert bound > 0, bound
        return self._chance.randrange(bound)
