"""What `penstock partitions reassign` shows: moves that begin, and how far they are."""

from collections.abc import Mapping, Sequence

from penstock.cli.show import listed, print_json, print_table, say
from penstock.client.admin.directory_moves import FollowedDirectory, Located
from penstock.client.admin.moving import Followed, Stage
from penstock.client.admin.reassignment_plan import Directories, Replica
from penstock.client.admin.replica_sizes import Copied
from penstock.client.admin.replication_throttle import Move
from penstock.model.identity import TopicPartition


def show_moves(
    moves: Sequence[Move],
    size_bytes: Mapping[TopicPartition, int],
    directories: Directories,
    located: Mapping[Replica, Located],
    *,
    dry_run: bool,
) -> None:
    if not moves and not directories:
        say("nothing to move: all partitions are there")
        return
    if moves:
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
    if directories:
        print_table(
            ("topic", "partition", "broker", "from directory", "to directory", "bytes to copy"),
            (
                (
                    *replica.partition,
                    replica.node,
                    _source(located[replica]),
                    path,
                    _bytes(located[replica]),
                )
                for replica, path in directories.items()
            ),
        )
    counts = []
    if moves:
        counts.append(_counted(len(moves), "partition"))
    if directories:
        counts.append(f"{_counted(len(directories), 'replica')} to a directory")
    count = " and ".join(counts)
    say(f"nothing was begun: {count} would move" if dry_run else f"moving {count}", err=True)


def _source(located: Located) -> str | None:
    return None if located.now is None else located.now.path


def _bytes(located: Located) -> int:
    """Nothing for a replica that its broker does not have yet: it is created in the directory, and
    the move between brokers counts its bytes.
    """
    return 0 if located.now is None else located.now.size_bytes


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def show_followed(
    found: Sequence[Followed],
    directories: Sequence[FollowedDirectory],
    *,
    as_json: bool,
    ended: Sequence[str],
) -> None:
    if as_json:
        print_json(
            {
                "partitions": [_followed_value(one) for one in found],
                "directories": [_directory_value(one) for one in directories],
                "throttles_removed": list(ended),
            }
        )
        return
    if not found and not directories:
        say("nothing moves")
    if found:
        print_table(
            ("topic", "partition", "from", "to", "state"),
            (
                (
                    *one.partition,
                    listed(one.replicas),
                    listed(one.target),
                    _state(one.stage, one.copied),
                )
                for one in found
            ),
        )
    if directories:
        print_table(
            ("topic", "partition", "broker", "is in", "to directory", "state"),
            (
                (
                    *one.replica.partition,
                    one.replica.node,
                    one.source,
                    one.target,
                    _state(one.stage, one.copied),
                )
                for one in directories
            ),
        )
    show_ended(ended)


def show_ended(ended: Sequence[str]) -> None:
    if ended:
        say(f"removed the throttle of {', '.join(ended)}", err=True)


def _state(stage: Stage, copied: Copied | None) -> str:
    if stage is Stage.MOVING and copied is not None:
        # Not yet in sync, whatever was copied.
        return f"moving, {min(99, int(copied.share * 100))} % copied"
    return stage.value


def new_directory_value(replica: Replica, path: str, located: Located) -> dict[str, object]:
    return {
        "topic": replica.partition.topic,
        "partition": replica.partition.partition,
        "broker": replica.node,
        "from": _source(located),
        "to": path,
        "bytes": _bytes(located),
    }


def _directory_value(one: FollowedDirectory) -> dict[str, object]:
    return {
        "topic": one.replica.partition.topic,
        "partition": one.replica.partition.partition,
        "broker": one.replica.node,
        "directory": one.source,
        "target": one.target,
        "state": one.stage.value,
        "copied_bytes": None if one.copied is None else one.copied.done_bytes,
        "whole_bytes": None if one.copied is None else one.copied.whole_bytes,
    }


def move_value(move: Move, size_bytes: int) -> dict[str, object]:
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
