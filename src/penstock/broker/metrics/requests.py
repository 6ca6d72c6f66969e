"""Requests by API: how many, which errors, and how long each part of them took.

Counted while they are answered (`broker/request/request_stats`); here they are told. An API that
nobody has asked for is not told. Bounds are powers of two in microseconds, told in milliseconds as
Apache Kafka does.
"""

from typing import Final

from penstock.broker.request.request_stats import (
    BUCKETS,
    LOCAL,
    QUEUE,
    REMOTE,
    SEND,
    TOTAL,
    ApiTimes,
    RequestStats,
)
from penstock.metrics.family import BUCKET, COUNT, SUM, Family, Kind, Sample, Source, Steps, counter
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey

PREFIX = "kafka_network_requestmetrics_"
REQUESTS = counter(
    f"{PREFIX}requests_total", "Requests that were answered, or need no answer.", "request"
)
ERRORS = counter(
    f"{PREFIX}errors_total",
    "Errors in replies, those of single topics and partitions among them.",
    "request",
    "error",
)


def _times(name: str, text: str) -> Family:
    return Family(
        name=f"{PREFIX}{name}", kind=Kind.HISTOGRAM, help=f"{text}, in ms.", labels=("request",)
    )


QUEUE_TIME = _times("requestqueuetimems", "How long requests waited until they were looked at")
LOCAL_TIME = _times("localtimems", "How long requests were worked on, until a reply or a wait")
REMOTE_TIME = _times("remotetimems", "How long requests waited for others: acks, data, decisions")
SEND_TIME = _times("responsesendtimems", "How long replies took from being ready to being sent")
TOTAL_TIME = _times("totaltimems", "How long requests took from their arrival to their reply")
# The exponents of the bounds. The total is told more finely than its parts.
FINE: Final = tuple(range(6, 25))  # 64 us to 17 s
COARSE: Final = FINE[::2]
PARTS: Final = (
    (QUEUE, QUEUE_TIME, COARSE),
    (LOCAL, LOCAL_TIME, COARSE),
    (REMOTE, REMOTE_TIME, COARSE),
    (SEND, SEND_TIME, COARSE),
    (TOTAL, TOTAL_TIME, FINE),
)
FAMILIES = (REQUESTS, ERRORS, *(family for _, family, _ in PARTS))


def request_metrics(stats: RequestStats) -> Source:
    def samples() -> Steps:
        for key, api in enumerate(stats.counts):
            if api.answered:
                yield REQUESTS.sample(api.answered, name_of(key))
        for (key, code), count in list(stats.errors.items()):
            yield ERRORS.sample(count, name_of(key), ErrorCode(code).name)
        for key, times in list(stats.times.items()):
            for part, family, exponents in PARTS:
                yield from _histogram(family, name_of(key), times, part, exponents)

    return Source(FAMILIES, samples)


def name_of(api_key: int) -> str:
    """As Apache Kafka writes it: ApiVersions."""
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))


def bounds_ms(exponents: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(2**exponent / 1000 for exponent in exponents)


def cumulative_counts(times: ApiTimes, part: int, exponents: tuple[int, ...]) -> tuple[int, ...]:
    """How many requests took less than each bound, and how many there were."""
    counts = times.counts[part * BUCKETS : (part + 1) * BUCKETS]
    # Whole microseconds of at most so many bits are less than the power of two.
    return (*(sum(counts[: exponent + 1]) for exponent in exponents), sum(counts))


def _histogram(
    family: Family, request: str, times: ApiTimes, part: int, exponents: tuple[int, ...]
) -> Steps:
    # One look: requests are answered between two steps, and what is told must add up.
    *counts, total = cumulative_counts(times, part, exponents)
    sum_us = times.sums_us[part]
    for bound_ms, count in zip(bounds_ms(exponents), counts, strict=True):
        yield Sample(family, count, (request, repr(bound_ms)), BUCKET)
    yield Sample(family, total, (request, "+Inf"), BUCKET)
    yield Sample(family, sum_us / 1000, (request,), SUM)
    yield Sample(family, total, (request,), COUNT)
