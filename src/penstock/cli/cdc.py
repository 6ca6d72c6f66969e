"""`penstock cdc`: changes of a database's tables into topics."""

import contextlib
from typing import Any

import click

from penstock.cli.command_config import read_client_settings
from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.options import bootstrap_option, given_command_config
from penstock.cli.pipeline_load import load
from penstock.client.admin.topology import WantedTopic
from penstock.client.admin.topology_apply import apply_topology, found_topics
from penstock.client.network.cluster import Cluster
from penstock.spark.pipelines.cdc.source import source_of
from penstock.spark.pipelines.cdc.source_topics import topics_of

PREFIX = "db"
PARTITIONS = 3


@click.group(cls=CommandGroup)
def cdc() -> None:
    """Capture changes of a database's tables into topics."""


@cdc.command()
@click.option("--postgres", "dsn", metavar="DSN", required=True, help="The database.")
@click.option(
    "--table",
    "tables",
    metavar="[SCHEMA.]TABLE",
    required=True,
    multiple=True,
    help="A table, which must have a primary key. Once for each.",
)
@click.option(
    "--prefix",
    default=PREFIX,
    show_default=True,
    help="A table's topic is PREFIX.SCHEMA.TABLE.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=PARTITIONS,
    show_default=True,
    help="Of each table's topic, when it is made.",
)
@click.option("--once", is_flag=True, help="Capture what there is now, and end.")
@bootstrap_option
def capture(
    dsn: str, tables: tuple[str, ...], prefix: str, partitions: int, once: bool, bootstrap: str
) -> None:
    """Capture the changes of tables of PostgreSQL, until Ctrl-C or --once.

    A table's topic gets the rows that the table has, and then each change once: the primary key as
    key, the row as JSON, a tombstone for a row that is gone. PREFIX.events tells of TRUNCATE and of
    other columns. With the same prefix a capture goes on where it was.
    """
    module: Any = load("penstock.spark.pipelines.cdc.capture", for_what="cdc capture")
    psycopg: Any = load("psycopg", for_what="cdc capture")
    source = source_of(dsn, tables, prefix=prefix)
    _make_missing(bootstrap, topics_of(source, partitions=partitions))
    config = given_command_config()
    settings = {} if config is None else read_client_settings(config)
    try:
        if once:
            count = module.capture(source, bootstrap, settings=settings)
            click.echo(f"{count:,} {'change' if count == 1 else 'changes'}")
            return
        for table, topic in source.topics.items():
            click.echo(f"{table} to {topic}", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            module.keep_capturing(source, bootstrap, lambda: True, settings=settings)
    except psycopg.Error as error:
        raise click.ClickException(f"PostgreSQL: {' '.join(str(error).split())}") from error


def _make_missing(bootstrap: str, wanted: dict[str, WantedTopic]) -> None:
    """Makes the topics that are missing, and says which. Those that exist stay as they are."""

    async def work(cluster: Cluster) -> list[str]:
        there = await found_topics(cluster, wanted)
        missing = {name: topic for name, topic in wanted.items() if name not in there}
        return [str(step) for step in await apply_topology(cluster, missing)]

    for step in with_cluster(bootstrap, work):
        click.echo(step, err=True)
