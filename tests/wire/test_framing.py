"""Frames come out whole and in order however the stream is cut; a size costs nothing by itself."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.errors import FrameTooLarge, MalformedMessage
from penstock.wire.framing import SMALL_FRAMES_BEFORE_SHRINK, FrameReader


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def feed(frames: FrameReader, data: bytes) -> list[bytes]:
    """Receives all of `data`, as much at a time as there is room for, and takes every frame."""
    taken = []
    while data:
        view = frames.receive_view()
        count = min(len(view), len(data))
        view[:count] = data[:count]
        data = data[count:]
        frames.received(count)
        while (frame := frames.next_frame()) is not None:
            taken.append(bytes(frame))
        frames.check()
    return taken


def test_stream_cut_at_any_byte_gives_the_same_frames() -> None:
    bodies = [b"first", b"", b"third frame"]
    stream = framed(*bodies)
    for cut in range(len(stream) + 1):
        frames = FrameReader(frame_bytes_max=100, buffer_bytes=8)
        assert feed(frames, stream[:cut]) + feed(frames, stream[cut:]) == bodies
        assert frames.is_idle


def test_stream_of_single_bytes_gives_the_same_frames() -> None:
    bodies = [b"first", b"", b"third frame"]
    frames = FrameReader(frame_bytes_max=100)
    taken = [frame for byte in framed(*bodies) for frame in feed(frames, bytes((byte,)))]
    assert taken == bodies


@given(
    bodies=st.lists(st.binary(max_size=60), max_size=8),
    cuts=st.lists(st.integers(0, 500), max_size=8),
    buffer_bytes=st.integers(5, 64),
)
def test_any_cuts_and_any_buffer_give_the_same_frames(
    bodies: list[bytes], cuts: list[int], buffer_bytes: int
) -> None:
    stream = framed(*bodies)
    frames = FrameReader(frame_bytes_max=60, buffer_bytes=buffer_bytes)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    taken = []
    for start, end in pairwise(edges):
        taken += feed(frames, stream[start:end])
    assert taken == bodies


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_raise_nothing_else(data: bytes) -> None:
    frames = FrameReader(frame_bytes_max=100, buffer_bytes=16)
    try:
        feed(frames, data)
    except MalformedMessage:
        return
    frames.check()


@pytest.mark.parametrize("size", [101, 2**31 - 1])
def test_frame_larger_than_accepted_is_refused_at_its_size(size: int) -> None:
    frames = FrameReader(frame_bytes_max=100)
    with pytest.raises(FrameTooLarge) as refusal:
        feed(frames, struct.pack(">i", size))
    assert refusal.value.size == size
    assert refusal.value.size_max == 100


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_frame_of_negative_size_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage):
        feed(FrameReader(frame_bytes_max=100), struct.pack(">i", size))


def test_frame_of_exactly_the_accepted_size_is_taken() -> None:
    assert feed(FrameReader(frame_bytes_max=100), framed(bytes(100))) == [bytes(100)]


def test_announced_size_sets_no_memory_aside() -> None:
    frames = FrameReader(frame_bytes_max=2**31 - 1)
    usual = frames.buffer_bytes
    feed(frames, struct.pack(">i", 2**31 - 1))
    frames.receive_view()
    assert frames.buffer_bytes == usual


def test_buffer_tells_beforehand_how_large_it_will_be() -> None:
    frames = FrameReader(frame_bytes_max=10_000, buffer_bytes=16)
    data = framed(bytes(5000))
    while data:
        promised = frames.buffer_bytes_next
        view = frames.receive_view()
        assert frames.buffer_bytes == promised
        count = min(len(view), len(data))
        frames.received(count)
        data = data[count:]


def test_frame_stays_readable_while_the_buffer_is_replaced() -> None:
    frames = FrameReader(frame_bytes_max=10_000, buffer_bytes=32)
    stream = framed(b"kept") + struct.pack(">i", 5000) + bytes(20)
    view = frames.receive_view()
    view[: len(stream)] = stream
    frames.received(len(stream))
    frame = frames.next_frame()
    assert frame is not None
    frames.receive_view()
    assert frames.buffer_bytes > 32
    assert bytes(frame) == b"kept"


def test_large_buffer_stays_for_large_frames_and_goes_after_small_ones() -> None:
    frames = FrameReader(frame_bytes_max=10_000, buffer_bytes=64)
    feed(frames, framed(bytes(5000)))
    feed(frames, framed(b"small"))
    assert frames.buffer_bytes > 5000
    for _ in range(SMALL_FRAMES_BEFORE_SHRINK):
        feed(frames, framed(b"small"))
    frames.receive_view()
    assert frames.buffer_bytes == 64


def test_idle_buffer_shrinks_when_told_to() -> None:
    frames = FrameReader(frame_bytes_max=10_000, buffer_bytes=64)
    feed(frames, framed(bytes(5000)))
    frames.shrink()
    assert frames.buffer_bytes == 64
    assert feed(frames, framed(b"next")) == [b"next"]


def test_buffer_shrinks_to_what_is_pending_when_told_to() -> None:
    frames = FrameReader(frame_bytes_max=10_000, buffer_bytes=64)
    feed(frames, framed(bytes(5000)))
    whole = framed(bytes(range(200)))
    assert feed(frames, whole[:100]) == []
    frames.shrink()
    assert frames.buffer_bytes == 200  # twice what has come of it
    assert feed(frames, whole[100:]) == [bytes(range(200))]
