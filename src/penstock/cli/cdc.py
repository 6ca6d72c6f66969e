"""`penstock cdc`: changes of a database's tables into topics, and from there into other stores."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.escape import escaped
from penstock.cli.options import bootstrap_option, given_command_config, json_lines_option
from penstock.cli.pipeline_load import load
from penstock.client.admin.topology import WantedTopic
from penstock.client.admin.topology_apply import apply_topology, found_topics
from penstock.client.network.client_settings import read_client_settings
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ConnectionLost, TimedOut, Unreachable
from penstock.model.error import PenstockError
from penstock.spark.pipelines.cdc import search_index
from penstock.spark.pipelines.cdc.follower import RowStore, follow
from penstock.spark.pipelines.cdc.search_index import SearchIndex
from penstock.spark.pipelines.cdc.source import source_of
from penstock.spark.pipelines.cdc.source_topics import topics_of

PREFIX = "db"
PARTITIONS = 3
HITS = 10
PAUSE_SECONDS = 2.0
AWAY = (Unreachable, ConnectionLost, TimedOut)


@click.group(cls=CommandGroup)
def cdc() -> None:
    """Capture changes of a database's tables, and keep an index or a cache of the rows."""


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


topic_option = click.option("--topic", required=True, help="A table's topic, such as db.public.t.")
follow_once_option = click.option("--once", is_flag=True, help="Write what is there now, and end.")


@cdc.command()
@topic_option
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The index: a database of SQLite, made if it is missing.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    help="A column to search, once for each. Default: all that hold text.",
)
@follow_once_option
@bootstrap_option
def index(topic: str, file: Path, columns: tuple[str, ...], once: bool, bootstrap: str) -> None:
    """Keep a search index of a table's rows, until Ctrl-C or --once.

    The index holds the latest row of each key; `penstock cdc search` asks it.
    """
    with SearchIndex(file, topic=topic, columns=columns) as store:
        _follow(bootstrap, topic, store, once=once, away=AWAY)


@cdc.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=HITS,
    show_default=True,
    help="Show so many rows at most.",
)
@json_lines_option
def search(file: Path, query: str, limit: int, as_json: bool) -> None:
    """Show the rows of an index that fit a QUERY best.

    QUERY is one of SQLite's FTS5: words, "a phrase", prefix*, AND, OR, NOT.
    """
    for hit in search_index.search(file, query, count_max=limit):
        if as_json:
            click.echo(json.dumps({"key": hit.key, "row": hit.row}))
        else:
            row = json.dumps(hit.row, ensure_ascii=False)
            click.echo(f"{escaped(hit.key)}\t{escaped(row)}")


@cdc.command()
@topic_option
@click.option("--redis", "url", metavar="URL", required=True, help="redis://HOST:PORT/NUMBER")
@click.option("--name", help="How keys begin: NAME:KEY. Default: the topic.")
@follow_once_option
@bootstrap_option
def cache(topic: str, url: str, name: str | None, once: bool, bootstrap: str) -> None:
    """Keep a table's rows in a cache that speaks Redis' protocol, until Ctrl-C or --once.

    The cache holds the latest row of each key as JSON. One that was emptied is filled again.
    """
    module: Any = load("penstock.spark.pipelines.cdc.redis_cache", for_what="cdc cache")
    store = module.RedisCache(url, name=name or topic)
    away = (*AWAY, module.CacheUnreachable, module.CacheChanged)
    _follow(bootstrap, topic, store, once=once, away=away)


def _follow(
    bootstrap: str,
    topic: str,
    store: RowStore,
    *,
    once: bool,
    away: tuple[type[PenstockError], ...],
) -> None:
    """Waits for what is away, unless `once`."""
    if once:
        count = with_cluster(bootstrap, lambda cluster: follow(cluster, topic, store))
        click.echo(f"{count:,} {'record' if count == 1 else 'records'}")
        return
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                with_cluster(bootstrap, lambda cluster: follow(cluster, topic, store, _for_ever))
            except away as error:
                click.echo(f"waits: {error}", err=True)
                time.sleep(PAUSE_SECONDS)


def _for_ever() -> bool:
    return True


def _make_missing(bootstrap: str, wanted: dict[str, WantedTopic]) -> None:
    """Makes the topics that are missing, and says which. Those that exist stay as they are."""

    async def work(cluster: Cluster) -> list[str]:
        there = await found_topics(cluster, wanted)
        missing = {name: topic for name, topic in wanted.items() if name not in there}
        return [str(step) for step in await apply_topology(cluster, missing)]

    for step in with_cluster(bootstrap, work):
        click.echo(step, err=True)
