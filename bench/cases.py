"""What is measured: one `Case` for each line of the table."""

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from itertools import product

from penstock.records.compression import Codec

KIB = 1024
SIZES = {100: "100B", 1000: "1KB"}
BATCHES = {16 * KIB: "16KiB", 64 * KIB: "64KiB", 1024 * KIB: "1MiB"}
ACKS = {1: "acks1", -1: "all"}
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)


class Kind(Enum):
    PRODUCE = "produce"  # batches as large as clients send them: CPU per GB counts
    SMALL = "small"  # one record a request: CPU per request counts
    FETCH = "fetch"
    TAIL = "tail"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    kind: Kind
    record_bytes: int = 1000
    batch_bytes: int = 64 * KIB  # before compression
    partitions: int = 12
    acks: int = 1
    codec: Codec = Codec.NONE
    connections: int = 4
    in_flight: int = 4
    value_bytes: int = 500_000_000  # written in one run
    requests: int | None = None  # instead, where requests count and not bytes
    passes: int = 1
    rate: int = 0
    readers: int = 1
    quick: bool = False


def chosen(pattern: str | None, *, quick: bool) -> list[Case]:
    """The cases whose names match or contain `pattern`; without one, all, or the quick ones."""
    if pattern is not None:
        return [case for case in ALL_CASES if is_named(case, pattern)]
    return [case for case in ALL_CASES if case.quick or not quick]


def is_named(case: Case, pattern: str) -> bool:
    return any(
        fnmatch(case.name, one) or fnmatch(case.name, f"*{one}*") for one in pattern.split(",")
    )


def produce_cases() -> list[Case]:
    return [
        Case(
            name=f"produce/{SIZES[size]}/{BATCHES[batch]}/{partitions}p/{ACKS[acks]}/"
            f"{codec.name.lower()}",
            kind=Kind.PRODUCE,
            record_bytes=size,
            batch_bytes=batch,
            partitions=partitions,
            acks=acks,
            codec=codec,
            quick=(size, partitions, acks) == (1000, 12, 1) and codec is not Codec.ZSTD,
        )
        for size, batch, partitions, acks, codec in product(
            (1000, 100), BATCHES, (12, 1), ACKS, CODECS
        )
    ]


def small_case(connections: int, in_flight: int, requests: int, *, quick: bool = False) -> Case:
    return Case(
        name=f"small/1KB/{connections}x{in_flight}",
        kind=Kind.SMALL,
        batch_bytes=0,
        connections=connections,
        in_flight=in_flight,
        requests=requests,
        quick=quick,
    )


ALL_CASES = [
    *produce_cases(),
    Case(name="fetch/1KB/64KiB/12p", kind=Kind.FETCH, connections=2, passes=4, quick=True),
    Case(
        name="fetch/1KB/16KiB/12p",
        kind=Kind.FETCH,
        batch_bytes=16 * KIB,
        connections=2,
        passes=4,
    ),
    # 16 KiB a batch at 5,000 batches a second, each read by three: 80 MB/s in, 240 MB/s out.
    Case(
        name="tail/1KB/16KiB/12p/3readers",
        kind=Kind.TAIL,
        batch_bytes=16 * KIB,
        rate=5000,
        requests=25_000,
        readers=3,
    ),
    small_case(64, 4, 100_000, quick=True),
    small_case(8, 32, 100_000),
    small_case(1, 1, 30_000),
    Case(
        name="latency/1KB/1000per_s/all",
        kind=Kind.LATENCY,
        batch_bytes=0,
        acks=-1,
        rate=1000,
        requests=6000,
        quick=True,
    ),
]
