"""Frames out of a stream of bytes, for brokers and clients alike: no I/O, one buffer, no copy.

A frame is a size (int32) and that many bytes. The owner receives into `receive_view()`, says how
much came with `received(count)`, and takes frames with `next_frame()` until there is none:

        start        end
    .......[frame frame fra........]
     taken  received       free

Invariants:
1. 0 <= start <= end <= the size of the buffer; bytes in [start, end) are received and not taken.
2. A frame is a view of the buffer and holds until the next `receive_view()`, which may move what is
   left. A buffer that is too small is replaced, never resized, so views of it stay valid memory.
3. Room for a frame is made as its bytes arrive, by doubling: a size alone, however large, sets
   nothing aside.
4. A buffer that grew for a large frame stays while such frames keep coming, and goes back to its
   usual size after SMALL_FRAMES_BEFORE_SHRINK smaller ones, or when it is told to `shrink()`.
"""

import struct
from typing import Final

from penstock.model import limit
from penstock.wire.errors import FrameTooLarge, MalformedMessage

FRAME_HEADER_BYTES: Final = limit.FRAME_HEADER_BYTES
SMALL_FRAMES_BEFORE_SHRINK: Final = 64

_UNPACK_SIZE: Final = struct.Struct(">i").unpack_from


class FrameReader:
    """Splits what one connection receives into frames."""

    __slots__ = ("_end", "_small_frames", "_start", "_usual_bytes", "_view", "frame_bytes_max")

    def __init__(
        self, *, frame_bytes_max: int, buffer_bytes: int = limit.RECEIVE_BUFFER_BYTES
    ) -> None:
        assert buffer_bytes > FRAME_HEADER_BYTES
        assert 0 < frame_bytes_max < 1 << 31
        self.frame_bytes_max = frame_bytes_max
        self._usual_bytes = buffer_bytes
        self._view = memoryview(bytearray(buffer_bytes))
        self._start = 0
        self._end = 0
        self._small_frames = 0

    @property
    def buffer_bytes(self) -> int:
        """The memory held."""
        return len(self._view)

    @property
    def buffer_bytes_next(self) -> int:
        """The memory that `receive_view` will hold: ask before it, where memory is rationed."""
        if self._start == self._end:
            return self._usual_bytes if self._may_shrink() else len(self._view)
        return max(self._bytes_wanted(), len(self._view))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left over: the peer may close here without cutting a frame off."""
        return self._start == self._end

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None until more is received."""
        body = self._start + FRAME_HEADER_BYTES
        if body > self._end:
            return None
        stop = body + self._size_at_start()
        if stop > self._end:
            return None
        frame = self._view[body:stop]
        self._start = stop
        self._small_frames = 0 if len(frame) > self._usual_bytes else self._small_frames + 1
        return frame

    def receive_view(self) -> memoryview:
        """Room to receive into, never empty. Frames taken before are gone after this call."""
        if self._start == self._end:
            self._start = self._end = 0
            if self._may_shrink():
                self._view = memoryview(bytearray(self._usual_bytes))
            return self._view
        needed = self._bytes_wanted()
        if needed > len(self._view):
            self._move_to(memoryview(bytearray(needed)))
        elif self._start + needed > len(self._view):
            self._move_to(self._view)
        assert self._end < len(self._view)
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """`count` bytes were put at the start of the view that `receive_view` gave."""
        assert count >= 0
        self._end += count
        assert self._end <= len(self._view)

    def shrink(self) -> None:
        """Holds no more than what is pending needs, where memory is rationed.

        Frames taken before are gone after this call.
        """
        pending = 0 if self.is_idle else self._bytes_wanted()
        needed = max(pending, self._usual_bytes)
        if len(self._view) > needed:
            self._move_to(memoryview(bytearray(needed)))

    def check(self) -> None:
        """Invariant 1."""
        assert self._start >= 0
        assert self._start <= self._end
        assert self._end <= len(self._view)

    def _may_shrink(self) -> bool:
        """Invariant 4."""
        large = len(self._view) > self._usual_bytes
        return large and self._small_frames >= SMALL_FRAMES_BEFORE_SHRINK

    def _size_at_start(self) -> int:
        (size,) = _UNPACK_SIZE(self._view, self._start)
        assert isinstance(size, int)
        if size < 0:
            raise MalformedMessage(f"a frame of {size} bytes")
        if size > self.frame_bytes_max:
            raise FrameTooLarge(size=size, size_max=self.frame_bytes_max)
        return size

    def _bytes_wanted(self) -> int:
        """How long the buffer must be, from `start`, for the frame that has begun (invariant 3)."""
        have = self._end - self._start
        if have < FRAME_HEADER_BYTES:
            return FRAME_HEADER_BYTES
        whole = FRAME_HEADER_BYTES + self._size_at_start()
        return max(min(whole, max(self._usual_bytes, 2 * have)), have + 1)

    def _move_to(self, view: memoryview) -> None:
        """Moves what is left to the front of `view`, which may be the same one."""
        left = self._end - self._start
        view[:left] = self._view[self._start : self._end]
        self._view = view
        self._start, self._end = 0, left
