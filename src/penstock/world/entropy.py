"""Randomness from the operating system."""

import os


class RealEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random_below(self, bound: int) -> int:
        assert bound > 0, bound
        # Drawn again when too large, so that every number is as likely as any other.
        bits = (bound - 1).bit_length()
        while True:
            drawn = int.from_bytes(os.urandom((bits + 7) // 8)) & ((1 << bits) - 1)
            if drawn < bound:
                return drawn
