"""`penstock partitions reassign`: begin moves, follow them, cancel them."""

import asyncio
import sys
from pathlib import Path

import click

from penstock.cli import status
from penstock.cli.connect import until_interrupted, with_cluster
from penstock.cli.copy_bar import CopyBar
from penstock.cli.groups_scope import partitions_in, topics_option
from penstock.cli.options import cluster_options
from penstock.cli.show import listed, print_json, print_table, say
from penstock.client.admin.admin import Admin
from penstock.client.admin.moving import (
    Followed,
    Stage,
    begin_moves,
    cancel_moves,
    end_throttles,
    follow_moves,
    moves_to,
)
from penstock.client.admin.reassignment_plan import (
    Targets,
    check_targets,
    drained,
    parse_reassignments,
    spread,
)
from penstock.client.admin.reassignments import Reassignment, list_reassignments
from penstock.client.admin.replica_sizes import replica_sizes
from penstock.client.admin.replication_throttle import Move
from penstock.client.admin.topology import REPLICAS_MAX
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

LOOK_SECONDS = 0.5
GOES_ON = (
    "it goes on without this command; `penstock partitions reassign --verify` ends the throttle"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which partitions the command is about, as they were typed."""

    file: Path | None
    scopes: tuple[str, ...]
    to_brokers: tuple[NodeId, ...]
    drain: tuple[NodeId, ...]
    replicas: int | None = None

    async def targets(self, cluster: Cluster) -> Targets:
        """Where they are to be; Refused where that cannot be."""
        view = await cluster.refresh_all()
        described = await Admin(cluster).describe_cluster()
        if self.drain:
            running = {broker.node_id: not broker.fenced for broker in described.brokers}
            return drained(view, self.drain, running)
        if self.file is None:
            places = partitions_in(view, self.scopes)
            targets = spread(view, places, self.to_brokers, replicas_wanted=self.replicas)
        else:
            targets = self._read(self.file)
        check_targets(view, targets, [broker.node_id for broker in described.brokers])
        return targets

    async def moving(self, cluster: Cluster) -> dict[TopicPartition, Reassignment]:
        """Those of them that move; all that move, if none are named."""
        if self.file is not None:
            return await list_reassignments(cluster, self._read(self.file))
        if self.scopes:
            return await list_reassignments(
                cluster, partitions_in(await cluster.refresh_all(), self.scopes)
            )
        return await list_reassignments(cluster)

    @staticmethod
    def _read(file: Path) -> Targets:
        return parse_reassignments(file.read_text("utf-8", "replace"), source=str(file))


def brokers_option(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[NodeId, ...]:
    if text is None:
        return ()
    try:
        return tuple(NodeId(int(one)) for one in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: expected ids of brokers, as in 1,2,3") from None


@click.command()
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@topics_option
@click.option(
    "--to-brokers",
    callback=brokers_option,
    metavar="ID[,ID...]",
    help="Spread the partitions of --topic over these brokers.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1, max=REPLICAS_MAX),
    metavar="N",
    help="With --to-brokers: so many of each partition.  [default: as many as it has]",
)
@click.option(
    "--drain",
    callback=brokers_option,
    metavar="ID[,ID...]",
    help="Move all replicas of these brokers to the others that run.",
)
@click.option(
    "--throttle",
    "rate_bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Copy at most so many bytes a second, to and from each broker.",
)
@click.option("--dry-run", is_flag=True, help="Show the moves, and begin none.")
@click.option("--verify", is_flag=True, help="Show how far the moves are; end their throttle.")
@click.option("--cancel", is_flag=True, help="Bring what moves back to where it was.")
@click.option("--watch", is_flag=True, help="Wait until all is complete, with a progress bar.")
@cluster_options
def reassign(
    file: Path | None,
    topic_scopes: tuple[str, ...],
    to_brokers: tuple[NodeId, ...],
    replicas: int | None,
    drain: tuple[NodeId, ...],
    rate_bytes: int | None,
    dry_run: bool,
    verify: bool,
    cancel: bool,
    watch: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Move partitions to other brokers, while they are written to and read.

    FILE is as Apache Kafka's tool reads and writes it:

    \b
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 5, 2]}]}

    Or name topics and brokers: replicas that are on one of the brokers already stay. Or brokers
    that are to hold nothing any more. With --verify and --cancel, FILE or --topic select which
    moves are meant; without them it is all.
    """
    if (file is not None) + bool(topic_scopes) + bool(drain) > 1:
        raise click.UsageError("give one of FILE, --topic and --drain")
    if sum((verify, cancel, dry_run)) > 1:
        raise click.UsageError("give one of --verify, --cancel and --dry-run")
    if (verify or cancel) and (to_brokers or drain or rate_bytes):
        raise click.UsageError("--to-brokers, --drain and --throttle are for the begin of a move")
    named = file is not None or drain or (topic_scopes and to_brokers)
    if not verify and not cancel and not named:
        raise click.UsageError("what is to move? Give FILE, --drain, or --topic and --to-brokers")
    if replicas is not None and not to_brokers:
        raise click.UsageError("--replicas is for --topic and --to-brokers")
    wanted = Wanted(
        file=file, scopes=topic_scopes, to_brokers=to_brokers, drain=drain, replicas=replicas
    )
    if cancel:
        _cancel(wanted, bootstrap, as_json)
    elif verify:
        _verify(wanted, bootstrap, watch=watch, as_json=as_json)
    else:
        _begin(
            wanted,
            bootstrap,
            rate_bytes=rate_bytes,
            dry_run=dry_run,
            watch=watch,
            as_json=as_json,
        )


def _begin(
    wanted: Wanted,
    bootstrap: str,
    *,
    rate_bytes: int | None,
    dry_run: bool,
    watch: bool,
    as_json: bool,
) -> None:
    async def work(cluster: Cluster) -> tuple[list[Followed] | None, bool]:
        targets = await wanted.targets(cluster)
        running = await list_reassignments(cluster)
        moves = moves_to(cluster.view, targets, running)
        sizes = await replica_sizes(cluster)
        size_bytes = {
            move.partition: max(sizes.get(move.partition, {}).values(), default=0) * len(move.added)
            for move in moves
        }
        if not dry_run and moves:
            await begin_moves(cluster, moves, running, rate_bytes=rate_bytes)
        if as_json and not (watch and moves and not dry_run):
            print_json(
                {
                    "begun": not dry_run,
                    "throttle": rate_bytes,
                    "moves": [_move_value(move, size_bytes[move.partition]) for move in moves],
                }
            )
        elif not as_json:
            _show_moves(moves, size_bytes, dry_run=dry_run)
        if dry_run or not watch or not moves:
            return None, True
        return await _watched(cluster, {move.partition: move.target for move in moves})

    found, whole = with_cluster(bootstrap, work)
    if found is not None:
        _show_followed(found, as_json=as_json, ended=[])
    if not whole:
        _interrupted()


def _verify(wanted: Wanted, bootstrap: str, *, watch: bool, as_json: bool) -> None:
    async def work(cluster: Cluster) -> tuple[list[Followed], list[str], bool]:
        whole = True
        if wanted.file is not None:
            targets = await wanted.targets(cluster)
        else:
            moving = await wanted.moving(cluster)
            targets = {place: one.target for place, one in moving.items()}
        if watch:
            found, whole = await _watched(cluster, targets)
        else:
            found = await follow_moves(cluster, targets)
        topics = {place.topic for place in targets} or (await cluster.refresh_all()).topics
        return found, await end_throttles(cluster, topics), whole

    found, ended, whole = with_cluster(bootstrap, work)
    _show_followed(found, as_json=as_json, ended=ended)
    if not whole:
        _interrupted()


def _cancel(wanted: Wanted, bootstrap: str, as_json: bool) -> None:
    async def work(cluster: Cluster) -> tuple[dict[TopicPartition, Reassignment], list[str]]:
        moving = await wanted.moving(cluster)
        if not moving:
            code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            raise Refused(code, "", "nothing to cancel: no such partition moves")
        await cancel_moves(cluster, moving)
        return moving, await end_throttles(cluster, {place.topic for place in moving})

    moving, ended = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            {
                "cancelled": [
                    {"topic": place.topic, "partition": place.partition} for place in moving
                ],
                "throttles_removed": ended,
            }
        )
        return
    for place in moving:
        say(f"cancelled the move of {place}")
    _show_ended(ended)


async def _watched(cluster: Cluster, targets: Targets) -> tuple[list[Followed], bool]:
    """Until all is complete, or Ctrl-C; the throttle ends with the last move."""

    async def watch() -> None:
        with CopyBar(description="copied") as bar:
            while True:
                found = await follow_moves(cluster, targets)
                moving = {one.partition: one.copied for one in found if one.copied is not None}
                bar.show(moving, of=targets)
                if not any(one.stage is Stage.MOVING for one in found):
                    return
                await asyncio.sleep(LOOK_SECONDS)

    whole = await until_interrupted(watch())
    if whole:
        await end_throttles(cluster, {place.topic for place in targets})
    return await follow_moves(cluster, targets), whole


def _interrupted() -> None:
    say(GOES_ON, err=True)
    sys.exit(status.INTERRUPTED)


def _show_moves(moves: list[Move], size_bytes: dict[TopicPartition, int], *, dry_run: bool) -> None:
    if not moves:
        say("nothing to move: all partitions are there")
        return
    print_table(
        ("topic", "partition", "from", "to", "bytes to copy"),
        (
            (
                *move.partition,
                listed(move.replicas),
                listed(move.target),
                size_bytes[move.partition],
            )
            for move in moves
        ),
    )
    count = f"{len(moves)} partition{'s' * (len(moves) != 1)}"
    say(f"nothing was begun: {count} would move" if dry_run else f"moving {count}", err=True)


def _show_followed(found: list[Followed], *, as_json: bool, ended: list[str]) -> None:
    if as_json:
        print_json(
            {"partitions": [_followed_value(one) for one in found], "throttles_removed": ended}
        )
        return
    if not found:
        say("nothing moves")
    else:
        print_table(
            ("topic", "partition", "from", "to", "state"),
            (
                (*one.partition, listed(one.replicas), listed(one.target), _state(one))
                for one in found
            ),
        )
    _show_ended(ended)


def _show_ended(ended: list[str]) -> None:
    if ended:
        say(f"removed the throttle of {', '.join(ended)}", err=True)


def _state(one: Followed) -> str:
    if one.stage is Stage.MOVING and one.copied is not None:
        # Not yet in sync, whatever was copied.
        return f"moving, {min(99, int(one.copied.share * 100))} % copied"
    return one.stage.value


def _move_value(move: Move, size_bytes: int) -> dict[str, object]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "replicas": list(move.replicas),
        "target": list(move.target),
        "bytes": size_bytes,
    }


def _followed_value(one: Followed) -> dict[str, object]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "replicas": list(one.replicas),
        "target": list(one.target),
        "state": one.stage.value,
        "copied_bytes": None if one.copied is None else one.copied.done_bytes,
        "whole_bytes": None if one.copied is None else one.copied.whole_bytes,
    }
