"""The options of `penstock plan`, and what is taken where one is not given."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli.groups_scope import topics_option
from penstock.cli.options import bootstrap_option
from penstock.cli.partitions_balance import for_option
from penstock.cli.plan_measure import Measured, measure
from penstock.cli.times import parse_duration_ms
from penstock.model.lazy_dataclass import dataclass
from penstock.planning.disk import FILL_PERCENT_DEFAULT
from penstock.planning.partitions import (
    BROKERS_DEFAULT,
    PARTITION_MB_DEFAULT,
    REPLICATION_FACTOR_DEFAULT,
)

Command = TypeVar("Command", bound=Callable[..., Any])
RATE = click.FloatRange(min=0, min_open=True)
COUNT = click.IntRange(min=1)


def retention_seconds(context: click.Context, parameter: click.Parameter, text: str) -> int:
    try:
        return parse_duration_ms(text) // 1000
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a duration such as 7d or 12h") from None


throughput_option = click.option(
    "--throughput",
    "throughput_mb",
    type=RATE,
    required=True,
    metavar="MB/S",
    help="What producers write, at its peak, compressed.",
)
brokers_option = click.option(
    "--brokers",
    type=COUNT,
    default=BROKERS_DEFAULT,
    show_default=True,
    metavar="N",
    help="How many there are.",
)
replication_factor_option = click.option(
    "--replication-factor",
    type=COUNT,
    metavar="N",
    show_default=f"{REPLICATION_FACTOR_DEFAULT}, or as many as there are brokers",
    help="How many replicas each partition has.",
)
retention_option = click.option(
    "--retention",
    "retention_seconds",
    callback=retention_seconds,
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="How long records are kept.",
)
fill_option = click.option(
    "--fill",
    "fill_percent",
    type=click.IntRange(min=1, max=100),
    default=FILL_PERCENT_DEFAULT,
    show_default=True,
    metavar="PERCENT",
    help="How full a disk may be.",
)


def partition_options(command: Command) -> Command:
    """What decides how many partitions there are, and how it is measured."""
    for option in reversed(
        (
            throughput_option,
            click.option(
                "--partition-throughput",
                "partition_mb",
                type=RATE,
                metavar="MB/S",
                show_default=f"{PARTITION_MB_DEFAULT:g}",
                help="What one partition takes.",
            ),
            click.option(
                "--consumers",
                type=click.IntRange(min=0),
                default=0,
                metavar="N",
                help="Of the largest group.",
            ),
            click.option(
                "--consumer-throughput",
                "consumer_mb",
                type=RATE,
                metavar="MB/S",
                help="What one consumer processes: there are as many as that needs.",
            ),
            click.option(
                "--brokers",
                type=COUNT,
                metavar="N",
                show_default=f"{BROKERS_DEFAULT}, or as many as --measure finds",
                help="How many there are.",
            ),
            replication_factor_option,
            click.option(
                "--measure",
                "measured",
                is_flag=True,
                help="Take for --partition-throughput what the busiest partition takes now.",
            ),
            topics_option,
            for_option,
            bootstrap_option,
        )
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    partition_mb: float
    brokers: int
    replication_factor: int
    measured: Measured | None


def factor_of(replication_factor: int | None, *, brokers: int) -> int:
    """Three copies, or as many as there are brokers, as a node has it for new topics."""
    if replication_factor is None:
        return min(REPLICATION_FACTOR_DEFAULT, brokers)
    return replication_factor


def resolve(
    *,
    partition_mb: float | None,
    brokers: int | None,
    replication_factor: int | None,
    wants_measure: bool,
    scopes: tuple[str, ...],
    seconds: float,
    bootstrap: str,
) -> Given:
    """What was typed, then what is measured, then the defaults."""
    measured = None
    if wants_measure:
        if partition_mb is not None:
            raise click.UsageError("--partition-throughput is what --measure finds: give one")
        measured = measure(bootstrap, scopes=scopes, seconds=seconds)
        partition_mb = measured.mb
        brokers = measured.brokers if brokers is None else brokers
    elif scopes:
        raise click.UsageError("--topic says what to measure: it needs --measure")
    brokers = BROKERS_DEFAULT if brokers is None else brokers
    return Given(
        partition_mb=PARTITION_MB_DEFAULT if partition_mb is None else partition_mb,
        brokers=brokers,
        replication_factor=factor_of(replication_factor, brokers=brokers),
        measured=measured,
    )
