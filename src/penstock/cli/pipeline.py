"""`penstock pipeline`: list the ready pipelines, run one on Spark, write the events it reads."""

import time
from pathlib import Path
from typing import Any

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options, given_command_config, json_option
from penstock.cli.pipeline_generate import Generated, write_events
from penstock.cli.pipeline_load import events_of, feed_of, load
from penstock.cli.pipeline_run import RunWish, run_pipeline
from penstock.cli.show import print_json, print_table
from penstock.cli.times import parse_duration_ms
from penstock.client.admin.topology import read_topology
from penstock.client.admin.topology_apply import apply_topology
from penstock.client.network.cluster import Cluster
from penstock.spark.pipelines.catalogue import PIPELINES, Pipeline
from penstock.spark.pipelines.event_time_bounds import MS_MAX, EventTimeBounds

FOLDER = "penstock-pipelines"

name_argument = click.argument("name", type=click.Choice(list(PIPELINES)), metavar="NAME")


def _bound(context: click.Context, parameter: click.Parameter, text: str) -> int:
    try:
        duration_ms = parse_duration_ms(text)
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected a duration such as 90s, 5m or 30d") from None
    if duration_ms > MS_MAX:
        raise click.BadParameter(f"{text!r} is longer than time is counted")
    return duration_ms


def _positive_bound(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> int | None:
    if text is None:
        return None
    duration_ms = _bound(context, parameter, text)
    if duration_ms == 0:
        raise click.BadParameter(f"{text!r} must be longer than 0")
    return duration_ms


@click.group(cls=CommandGroup)
def pipeline() -> None:
    """Run the ready pipelines on Spark, and write events for them."""


@pipeline.command("list")
@json_option
def list_pipelines(as_json: bool) -> None:
    """List the pipelines: what each reads and writes."""
    if as_json:
        print_json([_summary(one) for one in PIPELINES.values()])
        return
    print_table(
        ("pipeline", "what it does", "reads"),
        ((one.name, one.summary, ", ".join(one.inputs) or None) for one in PIPELINES.values()),
        wrapped=("what it does", "reads"),
    )


@pipeline.command()
@name_argument
@click.option("--master", help="Spark's master. Default: what Spark was told, else this machine.")
@click.option("--folder", help=f"Checkpoints and tables. Default: ./{FOLDER}/NAME")
@click.option("--postgres", metavar="DSN", help="A database for the tables of the pipeline.")
@click.option("--for", "seconds", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="End after so long.")  # fmt: skip
@click.option("--once", is_flag=True, help="Work on what is there now, and end.")
@click.option(
    "--event-time-ahead",
    "ahead_ms",
    default="5m",
    show_default=True,
    metavar="DURATION",
    callback=_bound,
    help="Events further ahead of their record's timestamp become dead letters.",
)
@click.option(
    "--event-time-behind",
    "behind_ms",
    default="30d",
    show_default=True,
    metavar="DURATION",
    callback=_bound,
    help="Events further behind their record's timestamp become dead letters.",
)
@click.option(
    "--forget-after",
    "forget_after_ms",
    metavar="DURATION",
    callback=_positive_bound,
    help="Drop users or words without an event for so long. Default: keep all.",
)
@cluster_options
def run(
    name: str,
    master: str | None,
    folder: str | None,
    postgres: str | None,
    seconds: float | None,
    once: bool,
    ahead_ms: int,
    behind_ms: int,
    forget_after_ms: int | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Run a pipeline until Ctrl-C, for some SECONDS, or --once.

    Its topics are made first, as its topology file says. What it has done is kept in the folder:
    with the same one it goes on where it was.
    """
    if once and seconds is not None:
        raise click.UsageError("give --for or --once, not both")
    chosen = PIPELINES[name]
    if chosen.needs_postgres and postgres is None:
        raise click.UsageError(f"{name} needs a database: say where with --postgres DSN")
    if forget_after_ms is not None and not chosen.can_forget:
        able = " and ".join(one.name for one in PIPELINES.values() if one.can_forget)
        raise click.UsageError(f"{name} can't forget keys: --forget-after is for {able}")
    wish = RunWish(
        pipeline=chosen,
        bootstrap=bootstrap,
        master=master,
        folder=folder or str(Path(FOLDER, name).resolve()),
        postgres=postgres,
        seconds_max=seconds,
        once=once,
        event_time=EventTimeBounds(ahead_ms_max=ahead_ms, behind_ms_max=behind_ms),
        forget_after_ms=forget_after_ms,
        config=given_command_config(),
    )
    figures = run_pipeline(wish, apply_first=lambda: _apply(bootstrap, chosen))
    if as_json:
        print_json([one.summary() for one in figures])
        return
    print_table(
        ("query", "batches", "rows", "rows/s", "last batch", "dropped"),
        (
            (
                one.query,
                one.batches,
                one.rows,
                f"{one.rows_per_second:,.0f}",
                f"{one.batch_ms} ms",
                one.rows_dropped,
            )
            for one in figures
        ),
    )


@pipeline.command()
@name_argument
@click.option("--count", type=click.IntRange(min=1), required=True, help="So many events.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Events a second.")
@click.option("--seed", type=int, help="The same seed makes the same events. Default: by chance.")
@click.option("--postgres", metavar="DSN", help="The database whose table is changed, for cdc.")
@cluster_options
def generate(
    name: str,
    count: int,
    rate: float | None,
    seed: int | None,
    postgres: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write events for a pipeline to read, as they might really be.

    The story that they tell began a day ago, or earlier if there are more events than in a day.
    """
    chosen = PIPELINES[name]
    seed = time.time_ns() // 1000 % 1_000_000_000 if seed is None else seed
    if not chosen.inputs:
        _change_table(chosen, postgres, seed=seed, count=count, rate=rate)
        return
    _apply(bootstrap, chosen)
    events = events_of(chosen, seed, count=count)
    written = write_events(bootstrap, events, count=count, rate=rate)
    _print_written(written, seed, as_json)


def _change_table(
    chosen: Pipeline, postgres: str | None, *, seed: int, count: int, rate: float | None
) -> None:
    """A pipeline without input topics follows a table: its events are changes of that."""
    if postgres is None:
        raise click.UsageError(f"{chosen.name} follows a table: say where with --postgres DSN")
    feed = feed_of(chosen)
    psycopg: Any = load("psycopg", for_what=f"pipeline {chosen.name}")
    try:
        feed(postgres, seed, transactions_max=count, pause_seconds=1 / rate if rate else 0.0)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise click.ClickException(f"PostgreSQL: {said}") from error
    click.echo(f"{count:,} transactions, by seed {seed}")


def _print_written(written: Generated, seed: int, as_json: bool) -> None:
    if as_json:
        print_json({"seed": seed, "seconds": round(written.seconds, 3), "topics": written.topics})
        return
    for topic, count in written.topics.items():
        click.echo(f"{topic}: {count:,} events")
    total = sum(written.topics.values())
    click.echo(f"{total:,} events in {written.seconds:.1f} s, by seed {seed}")


def _apply(bootstrap: str, chosen: Pipeline) -> None:
    """Makes the topics as the pipeline needs them, and says what had to be done. Partitions that
    were added to them since are theirs to keep: a pipeline reads them all.
    """
    wanted = read_topology(chosen.topology)

    async def work(cluster: Cluster) -> list[str]:
        return [str(step) for step in await apply_topology(cluster, wanted, more_partitions=True)]

    for step in with_cluster(bootstrap, work):
        click.echo(step, err=True)


def _summary(one: Pipeline) -> dict[str, object]:
    return {
        "name": one.name,
        "summary": one.summary,
        "inputs": list(one.inputs),
        "outputs": list(one.outputs),
        "topology": str(one.topology),
    }
