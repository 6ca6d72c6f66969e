"""`penstock doctor`: the checklist before a cluster is relied on.

Exit status 0: nothing fails; 1: something does, or with --strict is to be warned of; or no broker
could be reached, which is one line on standard error.
"""

import sys

import click
from click.core import ParameterSource
from rich.text import Text

from penstock.cli.connect import with_cluster
from penstock.cli.doctor_show import report_value, show_report
from penstock.cli.escape import escaped
from penstock.cli.options import cluster_options, given_command_config, not_empty
from penstock.cli.show import OutputConsole, print_json
from penstock.cli.times import parse_duration_ms
from penstock.client.network.cluster import Cluster
from penstock.doctor.checklist import examine
from penstock.doctor.finding import Status, worst
from penstock.doctor.gather import RULES, gather
from penstock.doctor.seen import ClusterSeen, Limits, Load
from penstock.planning.partitions import PARTITION_MB_DEFAULT, plan_partitions
from penstock.planning.spread import REPLICAS_PER_BROKER_MAX

RATE = click.FloatRange(min=0, min_open=True)


def _duration(context: click.Context, parameter: click.Parameter, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: expected a duration such as 90s, 5m or 1h30m"
        ) from None


@click.command()
@click.option(
    "--lag-sla",
    "lag_ms_max",
    default="5m",
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="No group may be further behind.",
)
@click.option(
    "--open-for",
    "transaction_ms_max",
    default="15m",
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="No transaction may be open for longer.",
)
@click.option(
    "--replicas-per-broker",
    type=click.IntRange(min=1),
    default=REPLICAS_PER_BROKER_MAX,
    show_default=True,
    metavar="N",
    help="No broker may hold more replicas.",
)
@click.option(
    "--disk-free",
    type=click.IntRange(min=0, max=100),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="So much of each disk is to be free.",
)
@click.option(
    "--throughput",
    "throughput_mb",
    type=RATE,
    metavar="MB/S",
    help="What producers are to write to a topic, at its peak: has it the partitions for that?",
)
@click.option(
    "--consumers", type=click.IntRange(min=1), metavar="N", help="Of the largest group of a topic."
)
@click.option(
    "--partition-throughput",
    "partition_mb",
    type=RATE,
    metavar="MB/S",
    show_default=f"{PARTITION_MB_DEFAULT:g}",
    help="What one partition takes.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=not_empty,
    metavar="NAME",
    help="Whose load that is; repeatable.  [default: each topic but dead letters]",
)
@click.option("--strict", is_flag=True, help="Warnings count as failures, by the exit status.")
@click.option(
    "--timeout",
    "timeout_ms",
    default="60s",
    show_default=True,
    callback=_duration,
    metavar="DURATION",
    help="What is not answered by then is unknown.",
)
@cluster_options
@click.pass_context
def doctor(
    context: click.Context,
    lag_ms_max: int,
    transaction_ms_max: int,
    replicas_per_broker: int,
    disk_free: int,
    throughput_mb: float | None,
    consumers: int | None,
    partition_mb: float | None,
    topics: tuple[str, ...],
    strict: bool,
    timeout_ms: int,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Examine a cluster before it is relied on, and say what mends it.

    Each check passes, warns, fails, or is unknown: what the protocol does not show is not guessed.
    Nothing is changed. The exit status is 1 if a check fails.
    """
    limits = Limits(
        lag_ms_max=lag_ms_max,
        transaction_ms_max=transaction_ms_max,
        replicas_per_broker_max=replicas_per_broker,
        disk_free_percent_min=disk_free,
        load=_load(
            throughput_mb=throughput_mb,
            consumers=consumers,
            partition_mb=partition_mb,
            topics=topics,
        ),
    )

    async def work(cluster: Cluster) -> ClusterSeen:
        with OutputConsole(stderr=True).status("examining") as status:
            return await gather(
                cluster,
                lag_ms_max=lag_ms_max,
                timeout_ms=timeout_ms,
                progress=lambda what: status.update(Text(f"asking for {escaped(what)}")),
            )

    findings = examine(with_cluster(bootstrap, work, rules=RULES), limits)
    options = _given(context, bootstrap)
    if as_json:
        print_json(report_value(findings, options))
    else:
        show_report(findings, options)
    bad = (Status.FAIL, Status.WARN) if strict else (Status.FAIL,)
    if worst(findings) in bad:
        sys.exit(1)


def _load(
    *,
    throughput_mb: float | None,
    consumers: int | None,
    partition_mb: float | None,
    topics: tuple[str, ...],
) -> Load | None:
    if throughput_mb is None:
        for option, value in (
            ("--consumers", consumers),
            ("--partition-throughput", partition_mb),
            ("--topic", topics),
        ):
            if value:
                raise click.UsageError(f"{option} is of a planned load: it needs --throughput")
        return None
    load = Load(
        throughput_mb=throughput_mb,
        partition_mb=PARTITION_MB_DEFAULT if partition_mb is None else partition_mb,
        consumers=consumers or 0,
        topics=topics,
    )
    # PlanError for figures of which no plan can be made, before the cluster is asked.
    plan_partitions(
        throughput_mb=load.throughput_mb,
        partition_mb=load.partition_mb,
        consumers=load.consumers,
    )
    return load


def _given(context: click.Context, bootstrap: str) -> list[str]:
    """Options that a command needs to mean the same cluster; the environment goes with it."""
    options = []
    if context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        options += ["--bootstrap", bootstrap]
    config = given_command_config()
    if (
        config is not None
        and context.get_parameter_source("command_config") is ParameterSource.COMMANDLINE
    ):
        options += ["--command-config", str(config)]
    return options
