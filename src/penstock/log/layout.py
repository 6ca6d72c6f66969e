"""The names of files and directories on disk: those of Apache Kafka.

<data directory>/
  .lock                              held while a node runs
  .kafka_cleanshutdown               there only after a clean stop
  meta.properties                    whose directory this is
  penstock-start                     who has written here (log/start_file); Penstock's own
  recovery-point-offset-checkpoint   per partition: all below this offset is synced
  log-start-offset-checkpoint        per partition: where it begins, if not at a segment's start
  cleaner-offset-checkpoint          per partition: how far it is compacted
  replication-offset-checkpoint      per partition: the high watermark, as far as it was known
  unsynced-topic-ids                 whose the newest directories are (log/claims); Penstock's own
  <topic>-<partition>/
    partition.metadata               the topic's id
    leader-epoch-checkpoint          where each leader epoch began
    penstock-damaged                 a start has found damage below this offset; Penstock's own
    <base offset, 20 digits>.log        record batches, one after the other
    <base offset>.index                 offset -> position, sparse   (log/offset_index)
    <base offset>.timeindex             timestamp -> offset, sparse  (log/time_index)
    <base offset>.txnindex              aborted transactions         (log/aborted_index)
    <offset>.snapshot                   producers as of that offset  (log/producer_snapshot)
    quorum-state                     of the metadata log: epoch, leader, vote (log/quorum_state)
    <offset>-<epoch>.checkpoint         of the metadata log alone    (log/metadata_snapshots)
  <topic>-<partition>.<32 hex digits>-delete/   on its way out
  <topic>-<partition>.<32 hex digits>-stray/    unknown to the metadata, set aside
  <topic>-<partition>.<32 hex digits>-future/   a copy that is to take the place of the partition in
                                                another data directory (log/copying)
"""

import re

from penstock.model.identity import TopicPartition
from penstock.model.offset import Offset

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
ABORTED_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
QUORUM_STATE = "quorum-state"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
START = "penstock-start"
DAMAGED = "penstock-damaged"
UNSYNCED_TOPIC_IDS = "unsynced-topic-ids"
IDENTITY = "meta.properties"
LOCK = ".lock"
DELETED_DIRECTORY = "-delete"
STRAY_DIRECTORY = "-stray"
FUTURE_DIRECTORY = "-future"

OFFSET_MAX = 2**63 - 1  # twenty digits hold more than an offset
RELATIVE_OFFSET_MAX = 2**31 - 1  # an index entry has 4 bytes for it
FILE_NAME_LENGTH_MAX = 255

_SEGMENT_FILE = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))")
_PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_FUTURE_DIRECTORY = re.compile(_PARTITION_DIRECTORY.pattern + r"\.[0-9a-f]{32}" + FUTURE_DIRECTORY)


def segment_path(directory: str, base_offset: Offset, suffix: str) -> str:
    """The path of one file of a segment, or of a snapshot."""
    assert base_offset >= 0, base_offset
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[Offset, str] | None:
    """The base offset and the suffix of a segment's file; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > OFFSET_MAX:
        return None
    return Offset(int(match[1])), match[2]


def partition_directory(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose directory has this name; None for other names, also of directories out of
    use.
    """
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def retired_directory(partition: TopicPartition, token: bytes, suffix: str) -> str:
    """The name of a directory out of use; a long topic name is shortened for the token."""
    assert len(token) == 16, token
    ending = f"-{partition.partition}.{token.hex()}{suffix}"
    return partition.topic[: FILE_NAME_LENGTH_MAX - len(ending)] + ending


def parse_future_directory(name: str) -> TopicPartition | None:
    """The partition of which a directory of this name is to be a copy; None for other names."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def fits_future(partition: TopicPartition) -> bool:
    """Whether a future directory can have the whole name: a shortened one would be another's."""
    return len(f"{partition_directory(partition)}.{bytes(16).hex()}{FUTURE_DIRECTORY}") <= (
        FILE_NAME_LENGTH_MAX
    )
