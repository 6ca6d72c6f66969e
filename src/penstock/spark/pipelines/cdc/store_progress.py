"""How far a store has read its topic, and which deleted rows it has to remember. Pure.

A store remembers the place of a row that is gone, because an older change of the row may still come
from another partition, after partitions were added. A partition has its changes in the order of the
database's log. So once every partition has been read up to some change, whatever is still to come
is not older than the least of these changes, and the places in front of that one are not needed.

This holds for the partitions that the topic had when it was last read: the follower asks how many
there are before it lets a store forget.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.model.identity import TopicId
from penstock.spark.pipelines.cdc.latest_rows import Row

NOTHING = 0  # the position in front of all changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    topic_id: TopicId | None  # None: the store is empty, or neither it nor the cluster has ids
    next_offsets: Mapping[int, int]  # by partition
    # Of the last change that was read, in the database's log, by partition. Partitions of which no
    # change was read are missing.
    change_positions: Mapping[int, int]


def of_topic(progress: Progress, topic_id: TopicId | None) -> Progress | None:
    """The progress in a topic of this id, None if it is in another one. `topic_id` is None where
    the cluster says none; the first that it says is taken.
    """
    if topic_id is None or topic_id == progress.topic_id:
        return progress
    return replace(progress, topic_id=topic_id) if progress.topic_id is None else None


def later_positions(known: Mapping[int, int], rows: Iterable[tuple[int, Row]]) -> dict[int, int]:
    """Change positions after some more rows, each with its partition."""
    found = dict(known)
    for partition, row in rows:
        if row.place.position > NOTHING:
            found[partition] = max(found.get(partition, NOTHING), row.place.position)
    return found


def forgettable_before(progress: Progress, partitions: Iterable[int]) -> int:
    """Rows deleted in front of this position need no place. `partitions`: all that there are."""
    return min((progress.change_positions.get(one, NOTHING) for one in partitions), default=NOTHING)
