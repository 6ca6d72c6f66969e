"""Bugs to be planted: a checker counts once it has found the one that it is for."""

from enum import Enum


class Flaw(Enum):
    """What goes wrong on purpose, in every replica of a run."""

    VOTE_NOT_SYNCED = "vote-not-synced"
    OLD_EPOCH_COMMITTED = "old-epoch-committed"  # by counting copies, before one of its own
    TRUNCATION_SKIPPED = "truncation-skipped"  # records are appended to a log that diverges
    WATERMARK_TOO_EARLY = "watermark-too-early"
    SNAPSHOT_WITHOUT_EPOCH = "snapshot-without-epoch"
    REFORMATTED_VOTER_COUNTED = "reformatted-voter-counted"
    SHORT_WAIT_TWICE = "short-wait-twice"
    FETCH_BEFORE_SYNC = "fetch-before-sync"  # acks what a crash may take back
