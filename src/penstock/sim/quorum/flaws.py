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
    SECOND_CHANGE_TOO_EARLY = "second-change-too-early"  # the first one is not committed
    CHANGE_BEFORE_OWN_COMMIT = "change-before-own-commit"  # of a record of the leader's epoch
    REMOVED_LEADER_COUNTED = "removed-leader-counted"  # by itself, for the majority
    VOTERS_NOT_TAKEN_BACK = "voters-not-taken-back"  # by a truncation of the log
    REFORMATTED_ACK_COUNTED = "reformatted-ack-counted"  # by its id alone
    FETCH_BEFORE_SYNC = "fetch-before-sync"  # acks what a crash may take back
