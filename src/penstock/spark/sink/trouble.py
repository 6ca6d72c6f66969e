"""What keeps a sink from writing a batch exactly once: each is said, and nothing is written."""


class SinkTrouble(Exception):
    """One clear line for whoever runs the query."""


class Superseded(SinkTrouble):
    """Another run of the query, or another query, has claimed the sink."""


class OlderBatch(SinkTrouble):
    """The checkpoint is behind the decision topic."""


class MissingBatch(SinkTrouble):
    """The checkpoint is ahead of the decision topic."""


class LostTransaction(SinkTrouble):
    """A decided transaction was aborted by somebody else."""


class Contended(SinkTrouble):
    """Others take the decider over again and again."""
