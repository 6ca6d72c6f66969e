"""The rules of a replica's move from one log directory of its node to another (KIP-113, KIP-858).

    current   <from>/orders-0/                       serves clients and followers
    future    <to>/orders-0.<32 hex digits>-future/  a copy, which follows the current log

The future log is copied in the background, batch by batch (`log/copying`). Once it has everything,
the controller is told that the replica is in the new directory; once the metadata say so, the
future log takes the place of the current one. Nothing of a move is remembered but the future
directory itself: what comes next follows from the two logs and the metadata, so that a move is
continued after a crash at any point.

The order matters. If the metadata named the new directory only after the change, a broker that
loses the new directory in between would stay the leader of records that it does not have.

Start reading at `next_act` and `fate_of`.
"""

from enum import Enum
from typing import assert_never

from penstock.log.copying import CaughtUp, Copy, Cut, RaiseStart, Restart, Step


class Act(Enum):
    """What the owner of a move does next."""

    COPY = "copy"  # carry the step out
    ASSIGN = "assign"  # tell the controller, and follow the current log until it is decided
    SWAP = "swap"  # the future log becomes the current one
    WAIT = "wait"


class Fate(Enum):
    """What becomes of a future directory that a start finds."""

    RESUME = "resume"
    DELETE = "delete"
    ADOPT = "adopt"  # it becomes the current log: there is no other
    SET_ASIDE = "set aside"
    LEAVE = "leave"  # until a directory that is offline is back


def next_act(step: Step, *, assigned: bytes, target: bytes, may_assign: bool, is_busy: bool) -> Act:
    """What to do about a step. `assigned` is the directory in the metadata. `may_assign`: a change
    of directory costs the replica nothing by which it might be elected. `is_busy`: something else
    is in the middle of a change of the current log.
    """
    match step:
        case Restart() | Cut() | RaiseStart() | Copy():
            return Act.COPY
        case CaughtUp():
            if assigned == target:
                return Act.WAIT if is_busy else Act.SWAP
            return Act.ASSIGN if may_assign else Act.WAIT
        case _:
            assert_never(step)


def fate_of(
    *,
    is_replica: bool,
    has_current: bool,
    same_directory: bool,
    is_second: bool,
    is_assigned: bool,
    some_offline: bool,
) -> Fate:
    """What becomes of a future directory at a start.

    `is_replica`: by the metadata, the broker has a replica of that very topic. `has_current`: a
    directory that is online has the current log; `same_directory`: that very one. `is_second`:
    another future directory of the partition is resumed. `is_assigned`: the metadata have the
    replica in the future's directory. `some_offline`: a directory is offline, and may hold the
    current log.
    """
    if not is_replica:
        return Fate.DELETE
    if has_current:
        return Fate.DELETE if same_directory or is_second else Fate.RESUME
    if some_offline:
        return Fate.LEAVE
    # The current log is gone with its directory. The future one may lack the last records, and is
    # better than nothing: the broker does not claim to have them all.
    return Fate.ADOPT if is_assigned and not is_second else Fate.SET_ASIDE
