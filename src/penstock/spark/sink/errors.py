"""What keeps a sink from writing a batch exactly once: each is said, and nothing is written."""

from penstock.model.error import PenstockError


class SinkTrouble(PenstockError):
    """One clear line for whoever runs the query."""


class Superseded(SinkTrouble):
    """Another run of the query, or another query, has claimed the sink."""


class OlderBatch(SinkTrouble):
    """The checkpoint is behind the decision topic."""


class MissingBatch(SinkTrouble):
    """The checkpoint is ahead of the decision topic."""


class LostTransaction(SinkTrouble):
    """A decided transaction was aborted by somebody else, or is not to be found any more."""


class BatchGivenUp(SinkTrouble):
    """The batch failed, or its query was stopped: this run does not decide it any more."""


class TransactionTimedOut(SinkTrouble):
    """What a task has written was aborted before it was decided: the batch can be repeated."""


class SecondWrite(SinkTrouble):
    """A run writes a batch once more under the same name, or something else than it wrote."""


class Unfinished(SinkTrouble):
    """A batch is decided, and the one before it is not complete."""


class Contended(SinkTrouble):
    """Others take the decider over again and again."""


class WrongDecisionTopic(SinkTrouble):
    """The decision topic would forget what was decided."""


class WrongColumns(SinkTrouble):
    """What is written has not the columns that a topic needs, or not of their types."""


class NoTwoPhase(SinkTrouble):
    """Two-phase commit is required, and the brokers do not let the sink have it."""
