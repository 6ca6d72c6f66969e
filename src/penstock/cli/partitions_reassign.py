"""`penstock partitions reassign`: begin moves, follow them, cancel them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from penstock.cli import status
from penstock.cli.connect import with_cluster
from penstock.cli.groups_scope import partitions_in, topics_option
from penstock.cli.options import cluster_options, ignore_room_option
from penstock.cli.partitions_reassign_show import (
    move_value,
    new_directory_value,
    show_ended,
    show_followed,
    show_moves,
)
from penstock.cli.partitions_reassign_watch import Watched, followed, watched
from penstock.cli.show import print_json, say
from penstock.client.admin.admin import Admin, first_refusal
from penstock.client.admin.directory_moves import (
    ask_directories,
    begin_directory_moves,
    cancel_directory_moves,
    end_directory_throttles,
    locate,
    throttle_directories,
)
from penstock.client.admin.disk_room import added_bytes, find_no_room
from penstock.client.admin.moving import (
    Cancelled,
    begin_moves,
    cancel_moves,
    end_throttles,
    moves_to,
)
from penstock.client.admin.reassignment_plan import (
    Directories,
    Placement,
    Replica,
    Targets,
    check_targets,
    drained,
    parse_reassignments,
    spread,
)
from penstock.client.admin.reassignments import Reassignment, list_reassignments
from penstock.client.admin.replica_sizes import replica_sizes
from penstock.client.admin.topology import REPLICAS_MAX
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, Refused
from penstock.client.network.repeated import GONE
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

GOES_ON = (
    "it goes on without this command; `penstock partitions reassign --verify` ends the throttle"
)


class MovedElsewhere(ClientError):
    """A move that was watched did not get to its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which partitions the command is about, as they were typed."""

    file: Path | None
    scopes: tuple[str, ...]
    to_brokers: tuple[NodeId, ...]
    drain: tuple[NodeId, ...]
    replicas: int | None = None

    @property
    def may_change_factor(self) -> bool:
        """Whether the number of replicas is part of what was asked for."""
        return self.file is not None or self.replicas is not None

    async def targets(self, cluster: Cluster) -> Targets:
        """Where they are to be; Refused where that cannot be."""
        moving = await list_reassignments(cluster)
        view = await cluster.refresh_all()
        described = await Admin(cluster).describe_cluster()
        if self.drain:
            running = {broker.node_id: not broker.fenced for broker in described.brokers}
            return drained(view, self.drain, running, moving=moving)
        if self.file is None:
            places = partitions_in(view, self.scopes)
            targets = spread(
                view, places, self.to_brokers, moving=moving, replicas_wanted=self.replicas
            )
        else:
            targets = self._read(self.file).targets
        check_targets(view, targets, [broker.node_id for broker in described.brokers])
        return targets

    async def moving(self, cluster: Cluster) -> dict[TopicPartition, Reassignment]:
        """Those of them that move; all that move, if none are named."""
        if self.file is not None:
            return await list_reassignments(cluster, self._read(self.file).targets)
        if self.scopes:
            return await list_reassignments(
                cluster, partitions_in(await cluster.refresh_all(), self.scopes)
            )
        return await list_reassignments(cluster)

    def directories(self) -> Directories:
        """Where replicas of the file are to be on their brokers."""
        return {} if self.file is None else self._read(self.file).directories

    @staticmethod
    def _read(file: Path) -> Placement:
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
@click.option(
    "--directory-throttle",
    "directory_rate_bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Copy at most so many bytes a second between the directories of a broker.",
)
@ignore_room_option
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
    directory_rate_bytes: int | None,
    ignore_room: bool,
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

    A partition may have "log_dirs", a path or "any" for each replica: the log directories of the
    brokers in which replicas are to be.

    Or name topics and brokers: replicas that are on one of the brokers already stay. Or brokers
    that are to hold nothing any more. With --verify and --cancel, FILE or --topic select which
    moves are meant; without them it is all.
    """
    if (file is not None) + bool(topic_scopes) + bool(drain) > 1:
        raise click.UsageError("give one of FILE, --topic and --drain")
    if sum((verify, cancel, dry_run)) > 1:
        raise click.UsageError("give one of --verify, --cancel and --dry-run")
    throttled = rate_bytes or directory_rate_bytes
    if (verify or cancel) and (to_brokers or drain or throttled):
        raise click.UsageError(
            "--to-brokers, --drain, --throttle and --directory-throttle are for the begin of a move"
        )
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
            directory_rate_bytes=directory_rate_bytes,
            ignore_room=ignore_room,
            dry_run=dry_run,
            watch=watch,
            as_json=as_json,
        )


def _begin(
    wanted: Wanted,
    bootstrap: str,
    *,
    rate_bytes: int | None,
    directory_rate_bytes: int | None,
    ignore_room: bool,
    dry_run: bool,
    watch: bool,
    as_json: bool,
) -> None:
    async def work(cluster: Cluster) -> Watched | None:
        targets = await wanted.targets(cluster)
        located = await locate(cluster, wanted.directories())
        directories = {
            replica: path
            for replica, path in wanted.directories().items()
            if not located[replica].is_at(path)
        }
        running = await list_reassignments(cluster)
        moves = moves_to(cluster.view, targets, running)
        sizes = await replica_sizes(cluster, {move.partition: move.brokers for move in moves})
        no_room = await find_no_room(cluster, added_bytes(moves, sizes))
        if no_room is not None and not ignore_room:
            raise no_room
        size_bytes = {
            move.partition: max(sizes.get(move.partition, {}).values(), default=0) * len(move.added)
            for move in moves
        }
        if not dry_run:
            if directory_rate_bytes is not None:
                nodes = [replica.node for replica in directories]
                await throttle_directories(cluster, nodes, rate_bytes=directory_rate_bytes)
            # A broker creates a new replica in the directory that it was asked for before.
            new = {one: path for one, path in directories.items() if located[one].now is None}
            await ask_directories(cluster, new)
            if moves:
                with _goes_on_after(*GONE):  # it may have begun
                    await begin_moves(
                        cluster,
                        moves,
                        running,
                        rate_bytes=rate_bytes,
                        may_change_factor=wanted.may_change_factor,
                    )
            with _goes_on_after(ClientError):
                await begin_directory_moves(cluster, directories)
        is_watched = watch and not dry_run and bool(moves or directories)
        if as_json and not is_watched:
            print_json(
                {
                    "begun": not dry_run,
                    "throttle": rate_bytes,
                    "directory_throttle": directory_rate_bytes,
                    "moves": [move_value(move, size_bytes[move.partition]) for move in moves],
                    "directories": [
                        new_directory_value(replica, path, located[replica])
                        for replica, path in directories.items()
                    ],
                }
            )
        elif not as_json:
            show_moves(moves, size_bytes, directories, located, dry_run=dry_run)
        if not is_watched:
            return None
        with _goes_on_after(ClientError):
            targets = {move.partition: move.target for move in moves}
            return await watched(cluster, targets, directories)

    seen = with_cluster(bootstrap, work)
    if seen is not None:
        show_followed(seen.found, seen.directories, as_json=as_json, ended=[])
        _end_watch(seen)


def _verify(wanted: Wanted, bootstrap: str, *, watch: bool, as_json: bool) -> None:
    async def work(cluster: Cluster) -> tuple[Watched, list[str]]:
        if wanted.file is not None:
            targets = await wanted.targets(cluster)
        else:
            moving = await wanted.moving(cluster)
            targets = {place: one.target for place, one in moving.items()}
        directories = wanted.directories()
        await locate(cluster, directories)
        if watch:
            with _goes_on_after(ClientError):
                seen = await watched(cluster, targets, directories)
        else:
            seen = await followed(cluster, targets, directories)
        topics = {place.topic for place in targets} or (await cluster.refresh_all()).topics
        ended = await end_throttles(cluster, topics)
        return seen, sorted({*ended, *await end_directory_throttles(cluster)})

    seen, ended = with_cluster(bootstrap, work)
    show_followed(seen.found, seen.directories, as_json=as_json, ended=ended)
    if watch:
        _end_watch(seen)


def _cancel(wanted: Wanted, bootstrap: str, as_json: bool) -> None:
    async def work(
        cluster: Cluster,
    ) -> tuple[Cancelled, list[Replica], list[str]]:
        moving = await wanted.moving(cluster)
        stayed = await cancel_directory_moves(cluster, wanted.directories())
        if not moving and not stayed:
            code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            raise Refused(code, "", "nothing to cancel: no such partition moves")
        told = await cancel_moves(cluster, moving)
        ended = await end_throttles(cluster, {place.topic for place in moving})
        return told, stayed, sorted({*ended, *await end_directory_throttles(cluster)})

    told, stayed, ended = with_cluster(bootstrap, work)
    if as_json:
        print_json(
            {
                "cancelled": [
                    {"topic": place.topic, "partition": place.partition} for place in told.cancelled
                ],
                "cancelled_directories": [
                    {
                        "topic": one.partition.topic,
                        "partition": one.partition.partition,
                        "broker": one.node,
                    }
                    for one in stayed
                ],
                "throttles_removed": ended,
            }
        )
    else:
        for place in told.cancelled:
            say(f"cancelled the move of {place}")
        for place in told.ended:
            say(f"the move of {place} had ended already")
        for one in stayed:
            say(f"cancelled the move of {one} to another directory")
        show_ended(ended)
    first_refusal(told.refused)


@contextmanager
def _goes_on_after(*errors: type[ClientError]) -> Iterator[None]:
    """Says that moves go on when the command ends by such an error."""
    try:
        yield
    except errors:
        say(GOES_ON, err=True)
        raise


def _end_watch(seen: Watched) -> None:
    """Status 0 only if all is where it was to move."""
    if not seen.whole:
        say(GOES_ON, err=True)
        sys.exit(status.INTERRUPTED)
    if seen.elsewhere:
        raise MovedElsewhere(
            "1 partition is not where it was to move: somebody else has cancelled or changed the"
            " move"
            if seen.elsewhere == 1
            else f"{seen.elsewhere} partitions are not where they were to move: somebody else has"
            " cancelled or changed the moves"
        )
