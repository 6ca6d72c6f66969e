"""The values of a plan, checked, as whole numbers: no plan depends on how a fraction is rounded."""

import math

from penstock.planning.errors import PlanError

MB = 1_000_000
THROUGHPUT_MB_MAX = 1_000_000_000.0
COUNT_MAX = 2**31 - 1
RETENTION_SECONDS_MAX = 100 * 365 * 86_400


def bytes_per_second(throughput_mb: float, *, what: str) -> int:
    if not (math.isfinite(throughput_mb) and 0 < throughput_mb <= THROUGHPUT_MB_MAX):
        raise PlanError(
            f"{what} is {throughput_mb:g} MB/s: expected more than 0, up to {THROUGHPUT_MB_MAX:g}"
        )
    return max(1, round(throughput_mb * MB))


def count(number: int, *, what: str, least: int = 1) -> int:
    if not least <= number <= COUNT_MAX:
        raise PlanError(f"{what}: {number}, expected {least} to {COUNT_MAX:,}")
    return number


def brokers_and_factor(*, brokers: int, replication_factor: int) -> tuple[int, int]:
    count(brokers, what="brokers")
    count(replication_factor, what="replication factor")
    if replication_factor > brokers:
        raise PlanError(
            f"{replication_factor} replicas of a partition need as many brokers, and there"
            f" {'is' if brokers == 1 else 'are'} {brokers}"
        )
    return brokers, replication_factor


def ceil_div(number: int, divisor: int) -> int:
    assert number >= 0
    assert divisor > 0
    return -(-number // divisor)
