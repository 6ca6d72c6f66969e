"""The replicas of a partition, compared batch by batch as they lie on disk.

Read without any code of the product; Penstock and Apache Kafka write the same format. Replicas may
roll their segments at different places, so that batches are compared by offset, and not files.
"""

import struct
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

# Base offset, length of what follows; leader epoch, magic, checksum, attributes, last offset delta.
START = struct.Struct(">qi")
REST = struct.Struct(">ibIhi")
HEADER_BYTES = 61
FAULTS_MAX = 10  # of one partition: the first ones say what is wrong


class LoggedBatch(NamedTuple):
    offset: int
    end_offset: int  # one after its last record
    leader_epoch: int
    content: bytes


class BrokenLog(Exception):
    """A log that is no chain of batches, and where."""


def batches_of(directory: Path) -> Iterator[LoggedBatch]:
    """All batches of a partition in order; what is there of an incomplete last one is left out."""
    expected = 0
    for segment in sorted(directory.glob("*.log")):
        for batch in batches_in(segment):
            if batch.offset < expected:
                raise BrokenLog(f"{segment}: offset {batch.offset} after {expected - 1}")
            expected = batch.end_offset
            yield batch


def batches_in(segment: Path) -> Iterator[LoggedBatch]:
    content, at = segment.read_bytes(), 0
    while at + HEADER_BYTES <= len(content):
        offset, length = START.unpack_from(content, at)
        if length == 0:
            return  # Preallocated; nothing follows.
        leader_epoch, magic, _, _, last_delta = REST.unpack_from(content, at + START.size)
        end = at + START.size + length
        if magic != 2 or last_delta < 0 or length < HEADER_BYTES - START.size:
            raise BrokenLog(f"{segment}: no batch at position {at}")
        if end > len(content):
            return
        yield LoggedBatch(offset, offset + last_delta + 1, leader_epoch, content[at:end])
        at = end


def differences(replicas: Mapping[str, Path], *, watermark: int) -> list[str]:
    """Where these directories of one partition differ below its high watermark."""
    faults: list[str] = []
    logs = {name: below(batches_of(path), watermark) for name, path in replicas.items()}
    reached = dict.fromkeys(logs, 0)
    try:
        for row in zip_longest(*logs.values()):
            by_name = dict(zip(logs, row, strict=True))
            for name, batch in by_name.items():
                if batch is not None:
                    reached[name] = batch.end_offset
            if len(set(row)) > 1:
                faults.append(difference(by_name))
                if len(faults) == FAULTS_MAX:
                    return faults
    except BrokenLog as broken:
        faults.append(str(broken))
        return faults
    faults += [
        f"{name} ends at {end}, below the high watermark {watermark}"
        for name, end in reached.items()
        if end < watermark
    ]
    return faults


def below(batches: Iterator[LoggedBatch], watermark: int) -> Iterator[LoggedBatch]:
    for batch in batches:
        if batch.offset >= watermark:
            return
        yield batch


def difference(row: Mapping[str, LoggedBatch | None]) -> str:
    """One line: what each replica has, and how two batches of the same offsets differ."""
    shown = [
        f"{name} has nothing"
        if batch is None
        else f"{name} has {batch.offset} to {batch.end_offset - 1} in {len(batch.content)} bytes"
        for name, batch in row.items()
    ]
    first, *others = [batch for batch in row.values() if batch is not None]
    for other in others:
        if (first.offset, first.end_offset) == (other.offset, other.end_offset):
            pairs = zip_longest(first.content, other.content)
            at = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
            if at is not None:
                shown.append(f"first difference at byte {at} of the batch")
                break
    return ", ".join(shown)
