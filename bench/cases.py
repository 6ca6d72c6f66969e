"""What is measured: one `Case` for each line of the table."""

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from itertools import product

from framings import FRAMINGS, NOT_COMPRESSED, Framing

KIB = 1024
SIZES = {100: "100B", 1000: "1KB"}
BATCHES = {16 * KIB: "16KiB", 64 * KIB: "64KiB", 1024 * KIB: "1MiB"}
ACKS = {1: "acks1", -1: "all"}
CLIENT_BATCHES = (16 * KIB, 1024 * KIB)  # the default of most clients, and the largest by default

# Versions of requests. Up to the first ones a topic goes by its name, as in most clients in use.
PRODUCE_BY_NAME, PRODUCE_BY_ID = 9, 13
FETCH_BY_NAME, FETCH_BY_ID = 12, 17


class Kind(Enum):
    PRODUCE = "produce"  # batches as large as clients send them: CPU per GB counts
    SMALL = "small"  # one record a request: CPU per request counts
    FETCH = "fetch"
    TAIL = "tail"
    LATENCY = "latency"


class Payload(Enum):
    """What values hold, which decides how long decompression takes."""

    TEXT = "text"  # words: shrinks to about 0.55 in many short matches, which is slow to expand
    HALF = "half"  # half noise, half the same in all: shrinks to 0.5 in long runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    kind: Kind
    record_bytes: int = 1000
    batch_bytes: int = 64 * KIB  # before compression
    partitions: int = 12
    acks: int = 1
    framing: Framing = NOT_COMPRESSED
    payload: Payload = Payload.TEXT
    by_name: bool = False
    connections: int = 4
    in_flight: int = 4
    value_bytes: int = 500_000_000  # written in one run
    requests: int | None = None  # instead, where requests count and not bytes
    passes: int = 1
    rate: int = 0
    readers: int = 1
    listener: str = "PLAINTEXT"
    quick: bool = False


def chosen(pattern: str | None, *, quick: bool, nodes: int = 1) -> list[Case]:
    """The cases whose names match or contain `pattern`; without one, all, or the quick ones."""
    cases = ALL_CASES if nodes == 1 else REPLICATED_CASES
    if pattern is not None:
        return [case for case in cases if is_named(case, pattern)]
    return [case for case in cases if case.quick or not quick]


def is_named(case: Case, pattern: str) -> bool:
    return any(
        fnmatch(case.name, one) or fnmatch(case.name, f"*{one}*") for one in pattern.split(",")
    )


def plain_cases() -> list[Case]:
    """Not compressed: sizes of records and batches; and one partition, or acks of all."""
    sizes = [
        Case(
            name=f"produce/none/{SIZES[size]}/{BATCHES[batch]}",
            kind=Kind.PRODUCE,
            record_bytes=size,
            batch_bytes=batch,
            quick=size == 1000 and batch in CLIENT_BATCHES,
        )
        for size, batch in product(SIZES, BATCHES)
    ]
    ways = [
        Case(
            name=f"produce/none/1KB/64KiB/{partitions}p/{ACKS[acks]}",
            kind=Kind.PRODUCE,
            partitions=partitions,
            acks=acks,
        )
        for partitions, acks in product((12, 1), ACKS)
        if (partitions, acks) != (12, 1)
    ]
    return sizes + ways


QUICK_FRAMINGS = {
    ("lz4-java", "text"),
    ("lz4-go", "half"),
    ("snappy-java", "text"),
    ("zstd-java", "text"),
}


def compressed_cases() -> list[Case]:
    """Every framing of every client, 1 KB records."""
    return [
        Case(
            name=f"produce/{framing.name}/{BATCHES[batch]}/{payload.value}",
            kind=Kind.PRODUCE,
            batch_bytes=batch,
            framing=framing,
            payload=payload,
            quick=(framing.name, payload.value) in QUICK_FRAMINGS
            and (batch == 1024 * KIB or framing.name == "lz4-go"),
        )
        for framing, batch, payload in product(FRAMINGS, CLIENT_BATCHES, Payload)
    ]


def small_case(
    connections: int, in_flight: int, requests: int, *, by_name: bool, quick: bool = False
) -> Case:
    return Case(
        name=f"small/1KB/{connections}x{in_flight}/{'by-name' if by_name else 'by-id'}",
        kind=Kind.SMALL,
        batch_bytes=0,
        connections=connections,
        in_flight=in_flight,
        requests=requests,
        by_name=by_name,
        quick=quick,
    )


def fetch_case(batch_bytes: int, *, by_name: bool, quick: bool = False) -> Case:
    return Case(
        name=f"fetch/1KB/{BATCHES[batch_bytes]}/{'by-name' if by_name else 'by-id'}",
        kind=Kind.FETCH,
        batch_bytes=batch_bytes,
        connections=2,
        passes=4,
        by_name=by_name,
        quick=quick,
    )


ALL_CASES = [
    *plain_cases(),
    *compressed_cases(),
    fetch_case(64 * KIB, by_name=True, quick=True),
    fetch_case(64 * KIB, by_name=False, quick=True),
    fetch_case(16 * KIB, by_name=True),
    # 16 KiB a batch at 5,000 batches a second, each read by three: 80 MB/s in, 240 MB/s out.
    Case(
        name="tail/1KB/16KiB/3readers",
        kind=Kind.TAIL,
        batch_bytes=16 * KIB,
        rate=5000,
        requests=25_000,
        readers=3,
    ),
    small_case(64, 4, 50_000, by_name=True, quick=True),
    small_case(64, 4, 50_000, by_name=False, quick=True),
    small_case(8, 32, 50_000, by_name=True),
    small_case(1, 1, 15_000, by_name=True),
    Case(
        name="latency/1KB/1000per_s/all",
        kind=Kind.LATENCY,
        batch_bytes=0,
        acks=-1,
        rate=1000,
        requests=3000,
        quick=True,
    ),
]


def replicated_produce(batch_bytes: int, partitions: int = 12, *, quick: bool = False) -> Case:
    """Each byte is written three times; connections are two to each leader."""
    return Case(
        name=f"rf3/produce/1KB/{BATCHES[batch_bytes]}/{partitions}p/all",
        kind=Kind.PRODUCE,
        batch_bytes=batch_bytes,
        partitions=partitions,
        acks=-1,
        connections=6,
        value_bytes=250_000_000,
        quick=quick,
    )


def replicated_small(*, by_name: bool, quick: bool = False) -> Case:
    return Case(
        name=f"rf3/small/1KB/63x4/{'by-name' if by_name else 'by-id'}/all",
        kind=Kind.SMALL,
        batch_bytes=0,
        acks=-1,
        connections=63,
        in_flight=4,
        requests=50_000,
        by_name=by_name,
        quick=quick,
    )


REPLICATED_CASES = [
    *(replicated_produce(batch_bytes, quick=True) for batch_bytes in CLIENT_BATCHES),
    *(replicated_produce(64 * KIB, partitions) for partitions in (1, 4, 16, 64)),
    replicated_small(by_name=True, quick=True),
    replicated_small(by_name=False),
    Case(
        name="rf3/latency/1KB/1000per_s/all",
        kind=Kind.LATENCY,
        batch_bytes=0,
        acks=-1,
        rate=1000,
        requests=3000,
        quick=True,
    ),
]


def encrypted_cases() -> list[Case]:
    """Produce and fetch over TLS, each after the same in plain text."""
    return [
        Case(
            name=f"{kind.value}/1KB/{BATCHES[batch]}/{listener}",
            kind=kind,
            batch_bytes=batch,
            connections=4 if kind is Kind.PRODUCE else 2,
            listener=listener,
        )
        for kind, batch, listener in product(
            (Kind.PRODUCE, Kind.FETCH), CLIENT_BATCHES, ("PLAINTEXT", "SSL")
        )
    ]
