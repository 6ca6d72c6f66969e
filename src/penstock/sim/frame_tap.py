"""Counts the frames in a stream of bytes that goes by: a size of four bytes, then so many."""

SIZE_BYTES = 4


class FrameTap:
    __slots__ = ("_left", "_size")

    def __init__(self) -> None:
        self._size = b""  # what has been seen of the next frame's size
        self._left = 0  # of the frame that is passing

    def frames_in(self, piece: bytes) -> int:
        """How many frames end within this piece."""
        ended = 0
        position = 0
        while position < len(piece):
            if self._left == 0:
                wanted = SIZE_BYTES - len(self._size)
                self._size += piece[position : position + wanted]
                position += wanted
                if len(self._size) < SIZE_BYTES:
                    break
                self._left = int.from_bytes(self._size)
                self._size = b""
            passed = min(self._left, len(piece) - position)
            position += passed
            self._left -= passed
            if self._left == 0:
                ended += 1
        return ended
