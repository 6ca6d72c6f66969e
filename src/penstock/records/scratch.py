"""Memory for what is decompressed, looked at and dropped."""

from typing import Final

SCRATCH_BYTES_MAX: Final = 8 * 1024 * 1024  # two of the largest blocks of lz4


class Scratch:
    """Memory that is kept from one batch to the next.

    What was decompressed into it holds until the next time. The library lets other threads run
    meanwhile, so no two of them may share one: a node has its own.
    """

    __slots__ = ("_memory",)

    def __init__(self) -> None:
        self._memory = memoryview(bytearray())

    def room(self, size: int) -> memoryview:
        """So many bytes, whatever they hold."""
        if size > SCRATCH_BYTES_MAX:
            return memoryview(bytearray(size))
        if size > len(self._memory):
            self._memory = memoryview(b"")  # before the next is made, or both would be held
            self._memory = memoryview(bytearray(size))
        return self._memory[:size]
