"""Which batches are traced: the same ones on every node, without exchanging anything.

The decision is a hash of what leader and followers know of a batch anyway: the id of its topic, its
partition and its base offset. It is asked for each batch, so it is a few operations on numbers: a
multiplication each for partition and offset, and one more to spread what differs in low bits.
"""

from typing import Final

ALL: Final = 1 << 64
MASK: Final = ALL - 1
# Odd, with bits all over: that of the golden ratio, and two of the finalizers of SplitMix64.
OFFSET_STEP: Final = 0x9E37_79B9_7F4A_7C15
PARTITION_STEP: Final = 0xBF58_476D_1CE4_E5B9
SPREAD: Final = 0x94D0_49BB_1331_11EB


class Sampling:
    """`fraction` of all batches, from 0 to 1."""

    __slots__ = ("_below",)

    def __init__(self, fraction: float) -> None:
        assert 0 <= fraction <= 1, fraction
        self._below = round(fraction * ALL)

    def is_sampled(self, topic_id: bytes, partition: int, base_offset: int) -> bool:
        number = (
            int.from_bytes(topic_id, "big") + partition * PARTITION_STEP + base_offset * OFFSET_STEP
        ) & MASK
        number = (number ^ (number >> 31)) * SPREAD & MASK
        return number ^ (number >> 29) < self._below
