"""`penstock transactions recover` and `abort --sink`: what Spark's sinks have left behind."""

import time

import click

from penstock.cli.connect import with_cluster
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, say
from penstock.cli.transactions_show import age_text
from penstock.client.admin.transaction_listing import TransactionDescription
from penstock.client.network.cluster import Cluster
from penstock.spark.sink.decision_topic import DecisionTopic
from penstock.spark.sink.errors import LostTransaction
from penstock.spark.sink.leftover_transactions import (
    Recovered,
    end_sink,
    is_unfinished,
    open_of_sink,
    recover_all,
)
from penstock.spark.sink.options import DECISION_TOPIC

decision_topic_option = click.option(
    "--decision-topic",
    default=DECISION_TOPIC,
    show_default=True,
    metavar="TOPIC",
    help="Where sinks decide, if they have an option decisionTopic.",
)


@click.command()
@decision_topic_option
@cluster_options
def recover(decision_topic: str, bootstrap: str, as_json: bool) -> None:
    """Commit what sinks of Spark have decided and not completed, because their driver died.

    A query completes its own when it starts again; a single write has nobody who would, until the
    next sink starts.
    """

    async def work(cluster: Cluster) -> list[Recovered]:
        return await recover_all(DecisionTopic(cluster=cluster, name=decision_topic))

    found = with_cluster(bootstrap, work)
    if as_json:
        print_json([_recovered_value(one) for one in found])
    for one in [] if as_json else found:
        if one.lost is None:
            say(f"sink {one.sink}, batch {one.batch_id}: {one.transactions} committed")
    if not found and not as_json:
        say("nothing is left to complete")
    lost = [str(one.lost) for one in found if one.lost is not None]
    if lost:
        raise click.ClickException("\n".join(lost))


def abort_sink(decision_topic: str, sink: str, bootstrap: str, *, as_json: bool) -> None:
    """Ends all that a sink has open, the oldest first on the list; fails where rows are lost, of
    which the sink is free then.
    """

    async def work(cluster: Cluster) -> tuple[list[TransactionDescription], LostTransaction | None]:
        left = await open_of_sink(cluster, sink)
        decisions = DecisionTopic(cluster=cluster, name=decision_topic)
        if not left and not await is_unfinished(decisions, sink):
            return [], None
        return left, await end_sink(decisions, sink)

    now_ms = time.time_ns() // 1_000_000
    left, lost = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            [{"transactional_id": one.transactional_id, "start_ms": one.start_ms} for one in left]
        )
    for one in [] if as_json else left:
        age = age_text(one.start_ms, now_ms=now_ms)
        say(f"ended {one.transactional_id}, open for {age}")
    if lost is not None:
        raise click.ClickException(f"{lost}: it does now")
    if not left and not as_json:
        say(f"sink {sink} has nothing open")


def _recovered_value(one: Recovered) -> dict[str, object]:
    return {
        "sink": one.sink,
        "batch": one.batch_id,
        "transactions": one.transactions,
        "lost": None if one.lost is None else str(one.lost),
    }
