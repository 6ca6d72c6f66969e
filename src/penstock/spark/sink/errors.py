"""Errors of the sink: what keeps it from writing a batch exactly once."""

from penstock.model.error import PenstockError


class SinkError(PenstockError):
    """The message is one line for the user."""


class Superseded(SinkError):
    """Another run of the query, or another query, has claimed the sink."""


class OlderBatch(SinkError):
    """The checkpoint is behind the decision topic."""


class MissingBatch(SinkError):
    """The checkpoint is ahead of the decision topic."""


class LostTransaction(SinkError):
    """A decided transaction was aborted, or no trace of it is left."""


class BatchGivenUp(SinkError):
    """The batch failed, or its query was stopped: this run can no longer decide it."""


class TransactionTimedOut(SinkError):
    """A task's transaction was aborted before the decision: the batch can be repeated."""


class SecondWrite(SinkError):
    """A run writes a batch again with the same sinkId."""


class Unfinished(SinkError):
    """A batch is decided, and the one before it is not complete."""


class Contended(SinkError):
    """Other producers keep taking over the sink's transactional ids."""


class MissingTopic(SinkError):
    """A topic that rows are to be written to does not exist, and the brokers do not create it."""


class WrongDecisionTopic(SinkError):
    """The decision topic would delete decisions."""


class UnknownDecisions(SinkError):
    """What a sink has decided is in another topic, or nowhere any more."""


class WrongColumns(SinkError):
    """The rows lack a column that a topic needs, or have it with another type."""


class NoTwoPhase(SinkError):
    """Two-phase commit is required, and the brokers do not allow it."""
