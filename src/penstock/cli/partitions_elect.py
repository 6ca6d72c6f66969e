"""`penstock partitions elect-leaders`."""

import asyncio
from collections.abc import Mapping

import click

from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import partitions_in, scope_option
from penstock.cli.options import cluster_options
from penstock.cli.show import print_json, print_table, say
from penstock.client.admin.reassignments import Election, elect_leaders
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

SHOWN_MS_MAX = 5_000  # so long a broker may take to know of a leader that was elected


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    partition: TopicPartition
    before: NodeId | None
    leader: NodeId | None
    refusal: Refused | None


@click.command("elect-leaders")
@click.argument("scopes", nargs=-1, metavar="[TOPIC[:0,1]...]", callback=scope_option)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any replica that lives, where there is no leader: records may be lost.",
)
@click.option("--all", "everywhere", is_flag=True, help="With --unclean: of all topics.")
@cluster_options
def elect(
    scopes: tuple[str, ...], unclean: bool, everywhere: bool, bootstrap: str, as_json: bool
) -> None:
    """Elect the preferred leaders of partitions: the first replica of each, if it is in sync.

    Of all topics, or of some. Partitions that are led as they should be stay as they are.
    """
    if unclean and bool(scopes) == everywhere:
        raise click.UsageError("records may be lost: give --unclean the topics, or --all")
    election = Election.UNCLEAN if unclean else Election.PREFERRED

    async def work(cluster: Cluster) -> list[Elected]:
        view = await cluster.refresh_all()
        places = partitions_in(view, scopes) if scopes else None
        results = await elect_leaders(cluster, election, places)
        leaders = await _leaders(
            cluster, {place for place, refusal in results.items() if refusal is None}, election
        )
        found = []
        for place, refusal in sorted(results.items()):
            known = view.partition(place)
            before = None if known is None else known.leader
            leader = before if refusal is not None else leaders.get(place)
            found.append(Elected(partition=place, before=before, leader=leader, refusal=refusal))
        return found

    found = with_cluster(bootstrap, work)
    failed = [one for one in found if one.refusal is not None and not _not_needed(one.refusal)]
    if as_json:
        print_json([_value(one) for one in found])
    elif not found:
        say("nothing to elect: all partitions are led as they should be")
    else:
        print_table(
            ("topic", "partition", "before", "leader", "result"),
            ((*one.partition, one.before, one.leader, _result(one)) for one in found),
        )
    if failed and failed[0].refusal is not None:
        raise failed[0].refusal


async def _leaders(
    cluster: Cluster, elected: set[TopicPartition], election: Election
) -> dict[TopicPartition, NodeId]:
    """Who leads now. The broker that is asked may be some milliseconds behind the controller."""
    deadline_ms = cluster.clock.monotonic_ms() + SHOWN_MS_MAX
    while True:
        view = await cluster.refresh_all()
        found: dict[TopicPartition, NodeId] = {}
        for place in elected:
            known = view.partition(place)
            if known is None or known.leader is None:
                continue
            if election is Election.UNCLEAN or known.leader == known.replicas[0]:
                found[place] = known.leader
        if len(found) == len(elected) or cluster.clock.monotonic_ms() >= deadline_ms:
            return found
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)


def _not_needed(refusal: Refused) -> bool:
    return refusal.code == ErrorCode.ELECTION_NOT_NEEDED


def _result(one: Elected) -> str:
    if one.refusal is None:
        return "elected"
    if _not_needed(one.refusal):
        return "not needed"
    return one.refusal.message or one.refusal.code.name


def _value(one: Elected) -> Mapping[str, object]:
    refusal = one.refusal
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "before": one.before,
        "leader": one.leader,
        "elected": refusal is None,
        "error": None if refusal is None or _not_needed(refusal) else _result(one),
    }
