"""Randomness from the operating system."""

import os
import secrets


class RealEntropy:
    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random_below(self, bound: int) -> int:
        assert bound > 0, bound
        return secrets.randbelow(bound)
