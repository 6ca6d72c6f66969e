"""`penstock top`: a cluster at a glance, again and again."""

import asyncio
import sys
from dataclasses import replace
from datetime import datetime
from functools import partial

import click
from rich.console import RenderableType

from penstock.cli import status
from penstock.cli.connect import RULES, until_interrupted, with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import OutputConsole, print_json
from penstock.cli.top_draw import KEYS, drawn, natural_width
from penstock.cli.top_rows import Picture, picture_of
from penstock.cli.top_screen import Screen, full_screen
from penstock.cli.top_values import picture_value
from penstock.client.admin.cluster_sample import ClusterSample, Sampler
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError

# A node that gives no answer is shown as such soon, rather than waited for.
TOP_RULES = replace(RULES, connect_ms_max=2_000, request_ms_max=3_000)


@click.command()
@click.option(
    "--interval",
    "seconds",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Ask again so long after each answer; rates are those of this time.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show so many topics, groups and problems at most.",
)
@click.option("--once", is_flag=True, help="Print one picture and end, as into a pipe.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="What to print; json prints one picture and ends.",
)
@cluster_options
def top(seconds: float, top: int, once: bool, form: str, bootstrap: str, as_json: bool) -> None:
    """Watch a cluster: nodes, topics by throughput, groups by lag, and problems.

    q or Ctrl-C ends it. Nodes that die and a cluster that is away are shown, and it goes on.
    """
    as_json = as_json or form == "json"
    if once or as_json or not sys.stdout.isatty():
        picture = with_cluster(bootstrap, partial(_once, seconds=seconds), rules=TOP_RULES)
        _print(picture, top=top, as_json=as_json)
        return
    work = partial(_watch, seconds=seconds, top=top)
    if not with_cluster(bootstrap, work, rules=TOP_RULES):
        sys.exit(status.INTERRUPTED)


async def _once(cluster: Cluster, *, seconds: float) -> Picture:
    sampler = Sampler(cluster)
    first = await sampler.take()
    await asyncio.sleep(seconds)
    return picture_of(first, await sampler.take())


def _print(picture: Picture, *, top: int, as_json: bool) -> None:
    if as_json:
        print_json(picture_value(picture, top=top))
    elif sys.stdout.isatty():
        console = OutputConsole()
        console.print(drawn(picture, width=console.width, top=top), markup=False)
    else:
        OutputConsole(width=natural_width(picture, top=top)).print(drawn(picture, top=top))


async def _watch(cluster: Cluster, *, seconds: float, top: int) -> bool:
    """Until a key ends it; False when Ctrl-C did."""
    with full_screen() as screen:
        return await until_interrupted(_until_key(cluster, screen, seconds=seconds, top=top))


async def _until_key(cluster: Cluster, screen: Screen, *, seconds: float, top: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        showing = tasks.create_task(_show(cluster, screen, seconds=seconds, top=top))
        await screen.ended.wait()
        showing.cancel()


async def _show(cluster: Cluster, screen: Screen, *, seconds: float, top: int) -> None:
    sampler = Sampler(cluster)
    last: ClusterSample | None = None
    picture: Picture | None = None
    away_since: datetime | None = None
    screen.show(lambda width, height: drawn(None, width=width, height=height, top=top))
    while True:
        now, away = datetime.now(), None
        try:
            sample = await sampler.take()
        except ClientError as error:
            away_since = away_since or now
            away = f"the cluster is away since {away_since:%H:%M:%S}: {error}"
        else:
            picture, last, away_since = picture_of(last, sample), sample, None
        screen.show(
            partial(
                _drawn,
                picture,
                top=top,
                status=f"{now:%H:%M:%S}, every {seconds:g} s; {KEYS}",
                away=away,
            )
        )
        await asyncio.sleep(seconds)


def _drawn(
    picture: Picture | None, width: int, height: int, *, top: int, status: str, away: str | None
) -> RenderableType:
    return drawn(picture, width=width, height=height, top=top, status=status, away=away)
