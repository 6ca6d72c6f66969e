"""`penstock dlq`: list, replay."""

import sys

import click

from penstock.cli.command_group import CommandGroup
from penstock.cli.connect import with_cluster
from penstock.cli.dlq_read import Choice, Found, found_letters
from penstock.cli.dlq_replay import Order, Replayed, replay_letters
from penstock.cli.dlq_show import json_line, show_counts, show_found, show_replayed
from penstock.cli.options import cluster_options, not_empty, record_options
from penstock.cli.show import OutputConsole, print_json
from penstock.client.network.cluster import Cluster
from penstock.model.group_name import REPLAY_GROUP

SHOWN = 50

reason_option = click.option(
    "--reason",
    "reasons",
    multiple=True,
    callback=not_empty,
    metavar="TEXT",
    help="Only letters whose reason holds this text; repeatable.",
)
group_option = click.option(
    "--group",
    callback=not_empty,
    help="Whose offsets tell what was replayed.  [default: penstock-dlq-TOPIC]",
)


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List dead letters, and replay them."""


@dlq.command("list")
@click.argument("topic")
@reason_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=SHOWN,
    show_default=True,
    help="Show so many letters; all are counted.",
)
@click.option("--all", "with_replayed", is_flag=True, help="Those that were replayed too.")
@group_option
@record_options
def list_letters(
    topic: str,
    reasons: tuple[str, ...],
    limit: int,
    with_replayed: bool,
    group: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """List the letters of TOPIC that wait to be replayed, and count them by reason.

    With --json, an object a line, of as many letters as --limit allows.
    """
    choice = Choice(reasons=reasons, with_replayed=with_replayed)

    async def work(cluster: Cluster) -> Found:
        return await found_letters(cluster, topic, group or default_group(topic), choice, limit)

    found = with_cluster(bootstrap, work)
    if as_json:
        for one in found.letters:
            sys.stdout.buffer.write(json_line(one))
        sys.stdout.buffer.flush()
    else:
        show_found(found)
        show_counts(found.counts)


@dlq.command()
@click.argument("topic")
@click.option(
    "--to",
    callback=not_empty,
    metavar="TOPIC",
    help="Write them here.  [default: where each came from]",
)
@reason_option
@click.option("--limit", type=click.IntRange(min=1), help="Replay so many at most.")
@click.option("--dry-run", is_flag=True, help="Show what would be replayed, and do nothing.")
@group_option
@cluster_options
def replay(
    topic: str,
    to: str | None,
    reasons: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
    group: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Write the letters of TOPIC back to the topics that they came from, each once.

    Each has its key, value, timestamp and headers, and goes to the partition that it was in; with
    --to, by its key. What was replayed is noted in the same transactions, as offsets of a group: a
    replay that was killed is simply started again. Letters left out by --reason wait on, and so do
    those whose topic is not there.
    """
    order = Order(
        topic=topic,
        to=to,
        choice=Choice(reasons=reasons),
        limit=limit,
        dry_run=dry_run,
        group=group or default_group(topic),
    )

    async def work(cluster: Cluster) -> Replayed:
        with OutputConsole(stderr=True).status("replaying") as status:
            return await replay_letters(
                cluster, order, progress=lambda count: status.update(f"replayed {count} letters")
            )

    done = with_cluster(bootstrap, work)
    if as_json:
        counts = [
            {"topic": place, "reason": reason, "letters": count}
            for (place, reason), count in sorted(done.counts.items())
        ]
        print_json(
            {
                "replayed": done.total,
                "left": done.left,
                "without_source": done.without_source,
                "gone": [
                    {"topic": place, "letters": count} for place, count in sorted(done.gone.items())
                ],
                "dry_run": dry_run,
                "counts": counts,
            }
        )
    else:
        show_replayed(done, dry_run=dry_run)


def default_group(topic: str) -> str:
    return f"{REPLAY_GROUP}{topic}"
