"""What keeps a sink from writing a batch exactly once: each is said, and nothing is written."""

from penstock.model.error import PenstockError


class SinkError(PenstockError):
    """One clear line for whoever runs the query."""


class Superseded(SinkError):
    """Another run of the query, or another query, has claimed the sink."""


class OlderBatch(SinkError):
    """The checkpoint is behind the decision topic."""


class MissingBatch(SinkError):
    """The checkpoint is ahead of the decision topic."""


class LostTransaction(SinkError):
    """A decided transaction was aborted by somebody else, or is not to be found any more."""


class BatchGivenUp(SinkError):
    """The batch failed, or its query was stopped: this run does not decide it any more."""


class TransactionTimedOut(SinkError):
    """What a task has written was aborted before it was decided: the batch can be repeated."""


class SecondWrite(SinkError):
    """A run writes a batch once more under the same name, or something else than it wrote."""


class Unfinished(SinkError):
    """A batch is decided, and the one before it is not complete."""


class Contended(SinkError):
    """Others take the decider over again and again."""


class MissingTopic(SinkError):
    """A topic that rows are to be written to does not exist, and the brokers do not create it."""


class WrongDecisionTopic(SinkError):
    """The decision topic would forget what was decided."""


class WrongColumns(SinkError):
    """What is written has not the columns that a topic needs, or not of their types."""


class NoTwoPhase(SinkError):
    """Two-phase commit is required, and the brokers do not let the sink have it."""
