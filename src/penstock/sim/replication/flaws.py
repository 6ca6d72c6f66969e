"""Bugs to be planted: a checker counts once it has found the one that it is for."""

from enum import Enum


class ReplicationFlaw(Enum):
    """What goes wrong on purpose, on every node of a run and in the controller."""

    ACK_BEFORE_REPLICATION = "ack-before-replication"
    ENDS_KEPT_OVER_EPOCH = "ends-kept-over-epoch"  # of followers, by a leader that leads again
    EPOCHS_NOT_CUT = "epochs-not-cut"  # with the records, when a log is cut
    WIPED_TAKEN_FOR_CLEAN = "wiped-taken-for-clean"  # a start with an empty disk
    EPOCH_KEPT_BY_NEW_INCARNATION = "epoch-kept-by-new-incarnation"  # of a broker that led
    EPOCH_GIVEN_TWICE = "epoch-given-twice"  # when another node is elected
    ELIGIBLE_KEPT = "eligible-kept"  # over a change of min.insync.replicas
    TRUNCATION_SKIPPED = "truncation-skipped"  # records are appended to a log that diverges
    WATERMARK_TOO_EARLY = "watermark-too-early"  # followers are told the end of the log
    WATERMARK_FORGOTTEN = "watermark-forgotten"  # by a follower that becomes the leader
    SHRINK_BEFORE_CONFIRMED = "shrink-before-confirmed"
    SHRINK_BEFORE_SETTING = "shrink-before-setting"  # by which the controller has judged it
    FETCH_BEFORE_SYNC = "fetch-before-sync"  # where acks wait for syncs
    NEVER_JOINS = "never-joins"  # a follower that has caught up
